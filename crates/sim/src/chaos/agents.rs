//! Real agents with the simulated runtime, each a process with its own state folder.

use super::daemon::Daemon;
use super::programs;
use crate::simulation::capabilities;
use anyhow::Context as _;
use margrave_agent::disk::read_record;
use margrave_agent::runtimes::simulated::world::World;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub struct Agent {
    pub client: String,
    /// Devices an operator can deploy to.
    pub devices: Vec<String>,
    pub daemon: Daemon,
    state: PathBuf,
}

impl Agent {
    /// Prepares an agent with the identity in `identity`. `children` make it a gateway that hosts nothing itself.
    pub fn new(folder: &Path, client: &str, identity: &Path, children: usize) -> anyhow::Result<Self> {
        let home = folder.join("agents").join(client);
        let state = home.join("state");
        std::fs::create_dir_all(&home)?;
        let write = |name: &str, device: &str, hosts: Option<&str>| -> anyhow::Result<PathBuf> {
            let path = home.join(name);
            std::fs::write(&path, capabilities(device, hosts).to_string()).context("write capabilities")?;
            Ok(path)
        };
        let own = write("capabilities.json", client, (children == 0).then_some("compose"))?;
        let url = std::fs::read_to_string(identity.join("wfm-url"))?;
        let mut config = format!(
            "server = \"{}\"\nstate_dir = \"{}\"\nruntime = \"simulated\"\nobserve_period = \"200ms\"\n\
             [device]\nid = \"{client}\"\ncapabilities = \"{}\"\ndiscover = false\n\
             [poll]\nperiod = \"100ms\"\nstart_spread = \"50ms\"\nforbidden_period = \"200ms\"\n\
             [retry]\nfirst = \"50ms\"\nmax = \"500ms\"\n\
             [http]\nconnect_timeout = \"2s\"\nrequest_timeout = \"5s\"\n\
             [identity]\ncertificate = \"{svid}/cert.pem\"\nkey = \"{svid}/key.pem\"\n\
             trust_bundle = \"{svid}/bundle.pem\"\n",
            url.trim(),
            state.display(),
            own.display(),
            svid = identity.display(),
        );
        let mut devices = Vec::new();
        for index in 0..children {
            let device = format!("{client}/child-{index}");
            let path = write(&format!("child-{index}.json"), &device, Some("compose"))?;
            write!(config, "[[child]]\nid = \"child-{index}\"\ncapabilities = \"{}\"\n", path.display())?;
            devices.push(device);
        }
        if children == 0 {
            devices.push(client.to_owned());
        }
        let config_path = home.join("agent.toml");
        std::fs::write(&config_path, config)?;
        let arguments = ["run".to_owned(), "--config".to_owned(), config_path.display().to_string()];
        let daemon = Daemon::new(programs::find("margrave-agent")?, arguments, &home.join("agent.log"));
        Ok(Self { client: client.to_owned(), devices, daemon, state })
    }

    /// The state of its simulated runtime.
    pub fn world(&self) -> anyhow::Result<World> {
        let mut damaged = None;
        let world = read_record(&self.state.join("simulated-world.json"), &mut |error| damaged = Some(error));
        match damaged {
            Some(error) => Err(error.into()),
            None => Ok(world.unwrap_or_default()),
        }
    }
}
