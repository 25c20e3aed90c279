//! A cluster to try things on by hand: prints where its kubeconfig is, and ends when its input ends.

use margrave_testbed::Cluster;
use std::io::{Read as _, Write as _};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let cluster = Cluster::start().await;
    writeln!(std::io::stdout(), "{}", cluster.kubeconfig().display())?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}
