//! A namespace the agent made goes with its last component, but never with anything of others in it.

use crate::bench::{Device, IMAGE};
use crate::charts;
use margo::status::State;
use margrave_testbed::Cluster;

const DEFINITION: &str = "presses.plant.example";
const AWAY: &str = "v1.away.example";

/// Kinds of others belong to the whole cluster: they are taken away again, whatever comes.
struct Extensions(&'static Cluster);

impl Extensions {
    /// A kind of somebody else.
    async fn define(&self) {
        self.0.apply(&charts::definition("Press", "presses"));
        self.0.until("the new kind is known", &["get", "presses.plant.example", "-A"], |_| true).await;
    }

    /// A group that nobody serves.
    async fn announce(&self) {
        self.0.apply(&format!(
            "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{ name: {AWAY} }}\nspec:\n  \
             group: away.example\n  version: v1\n  groupPriorityMinimum: 1\n  versionPriority: 1\n  \
             insecureSkipTLSVerify: true\n  service: {{ namespace: default, name: nobody }}\n"
        ));
        self.0.until("it is announced", &["get", "--raw", "/apis"], |groups| groups.contains("away.example")).await;
    }

    fn withdraw(&self) {
        self.0.try_kubectl(&["delete", "apiservice", AWAY]);
        self.0.try_kubectl(&["delete", "customresourcedefinition", DEFINITION]);
    }
}

impl Drop for Extensions {
    fn drop(&mut self) {
        self.withdraw();
    }
}

async fn install_and_remove(device: &mut Device) {
    device.publish_revision("1.0.0");
    device.reaches(State::Installed).await;
    device.remove().await;
    assert!(device.ours("pods").is_empty() && device.ours("configmaps").is_empty());
}

/// It is still there, and the log says why.
fn assert_stays(device: &Device, why: &str) {
    let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace)).unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
    let log = device.log();
    let said =
        log.lines().any(|line| line.contains(&format!("namespace `{}` stays", device.namespace)) && line.contains(why));
    assert!(said, "{why}: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_stays_while_anything_of_others_is_or_may_be_in_it() {
    // Alone: a group that is away is one for everybody.
    let mut device = Device::alone("custom").await;
    // With an account, whose token the cluster makes and takes away by itself.
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: { name: web }\n";
    device.push_manifests("web", "1.0.0", &format!("{}---\n{account}", charts::objects(IMAGE))).await;
    device.publish_revision("1.0.0");
    device.start();
    device.reaches(State::Installed).await;
    let place = format!("metadata: {{ name: theirs, namespace: {} }}", device.namespace);
    device.cluster.apply(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n{place}\n\
         rules: [{{ apiGroups: [''], resources: [pods], verbs: [get] }}]\n"
    ));
    device.remove().await;
    assert_stays(&device, "Role `theirs` is in it");
    device.kubectl(&["delete", "role", "theirs"]);

    let extensions = Extensions(device.cluster);
    extensions.define().await;
    device.cluster.apply(&format!("apiVersion: plant.example/v1\nkind: Press\n{place}\n"));
    install_and_remove(&mut device).await;
    assert_stays(&device, "Press `theirs` is in it");
    device.kubectl(&["delete", "press", "theirs"]);

    extensions.announce().await;
    install_and_remove(&mut device).await;
    assert_stays(&device, "the kinds of `away.example/v1` are not known");
    extensions.withdraw();

    install_and_remove(&mut device).await;
    let gone = || {
        let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace));
        namespace.is_none_or(|namespace| namespace["status"]["phase"] == "Terminating")
    };
    device.until("an empty one goes", gone).await;
}
