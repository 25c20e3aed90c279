//! A namespace of the agent is deleted with its last component, but never with objects of others in it.

use crate::bench::{Device, IMAGE};
use crate::charts;
use margo::status::State;
use margrave_testbed::Cluster;

const DEFINITION: &str = "presses.plant.example";
const AWAY: &str = "v1.away.example";

/// Custom kinds are cluster-wide: they are always removed again.
struct Extensions(&'static Cluster);

impl Extensions {
    /// A custom kind.
    async fn define(&self) {
        self.0.apply(&charts::definition("Press", "presses"));
        self.0.until("the new kind is known", &["get", "presses.plant.example", "-A"], |_| true).await;
    }

    /// An API group without a server.
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

/// The namespace is kept, and the log says why.
fn assert_stays(device: &Device, why: &str) {
    let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace)).unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
    let log = device.log();
    let said = log
        .lines()
        .any(|line| line.contains(&format!("namespace `{}` is kept", device.namespace)) && line.contains(why));
    assert!(said, "{why}: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_namespace_that_may_contain_objects_of_others() {
    // Exclusive use: an unavailable API group affects all tests.
    let mut device = Device::alone("custom").await;
    // With an account, whose token the cluster creates and deletes automatically.
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
    assert_stays(&device, "it contains Role `theirs`");
    device.kubectl(&["delete", "role", "theirs"]);

    let extensions = Extensions(device.cluster);
    extensions.define().await;
    device.cluster.apply(&format!("apiVersion: plant.example/v1\nkind: Press\n{place}\n"));
    install_and_remove(&mut device).await;
    assert_stays(&device, "it contains Press `theirs`");
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
