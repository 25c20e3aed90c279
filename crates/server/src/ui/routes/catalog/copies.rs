//! A copy from another registry, with its progress.

use crate::copies;
use crate::ui::form::Posted;
use crate::ui::markup::{self, Markup};
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use margrave_api::copies::{CopiedArtifact, CopiedState, Copy, CopyState};
use margrave_api::registries::RegistryUse;

#[derive(Template)]
#[template(path = "catalog/copy.html", blocks = ["live", "nav"])]
struct CopyPage {
    shell: Shell,
    copy: Copy,
    state: Markup,
    over: bool,
    artifacts: Vec<(Markup, CopiedArtifact, String)>,
    bytes: String,
    /// Saved registry settings that were used.
    used: Vec<String>,
}
pages!(CopyPage);

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> PageResult {
    let copy = copies::get(&visit.state, &id)?;
    let (word, tone, symbol) = match copy.state {
        CopyState::Waiting => ("Queued", "idle", "clock"),
        CopyState::Running => ("Copying", "busy", "turning"),
        CopyState::Done => ("Done", "good", "check"),
        CopyState::Incomplete => ("Incomplete: some artifacts could not be copied", "warn", "warn"),
        CopyState::Failed => ("Failed", "bad", "cross"),
        CopyState::Cancelled => ("Cancelled by an operator", "mute", "cross"),
    };
    let shell = visit.shell(Section::Catalog, format!("{word} - {}", copy.source)).await?;
    let artifacts = copy.artifacts.iter().cloned().map(|artifact| {
        let (word, tone, symbol) = match artifact.state {
            CopiedState::Waiting => ("Waiting", "idle", "clock"),
            CopiedState::Copying => ("Copying", "busy", "turning"),
            CopiedState::Copied => ("Copied", "good", "check"),
            CopiedState::Present => ("Already present", "good", "check"),
            CopiedState::NotFound => ("Not found", "bad", "cross"),
            CopiedState::Failed => ("Failed", "bad", "cross"),
        };
        let bytes = words::bytes(artifact.bytes_copied + artifact.bytes_present);
        (markup::state(&words::api_value(&artifact.state), tone, symbol, word), artifact, bytes)
    });
    let page = CopyPage {
        artifacts: artifacts.collect(),
        bytes: words::bytes(copy.bytes_copied),
        used: copy.registries.iter().filter_map(RegistryUse::sentence).collect(),
        over: copy.state.is_over(),
        state: markup::state(&words::api_value(&copy.state), tone, symbol, word),
        copy,
        shell,
    };
    visit.show(&page)
}

pub(in crate::ui) async fn cancel(Path(id): Path<String>, posted: Posted) -> PageResult {
    copies::cancel(posted.state(), posted.caller(), &id, posted.comment()).await?;
    Ok(go(
        &format!("/catalog/copies/{id}"),
        Some(("copy-cancelled", "The copy was cancelled. Artifacts that were copied are kept.")),
    ))
}
