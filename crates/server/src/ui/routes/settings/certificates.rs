//! Certificates and identity of the server.

use crate::app::trust;
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use askama::Template;
use margrave_api::clients::Trust;

#[derive(Template)]
#[template(path = "settings/certificates.html", blocks = ["live", "nav"])]
struct TrustPage {
    shell: Shell,
    tab: &'static str,
    trust: Trust,
    version: &'static str,
}
pages!(TrustPage);

pub(in crate::ui) async fn show(visit: Visit) -> PageResult {
    let page = TrustPage {
        shell: visit.shell(Section::Settings, "Certificates - Settings").await?,
        tab: "trust",
        trust: trust::get(&visit.state),
        version: env!("CARGO_PKG_VERSION"),
    };
    visit.show(&page)
}
