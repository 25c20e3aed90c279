//! Copies an application with its components and images from external registries into the embedded one.
//!
//! A copy is a task with a record in memory. Nothing of it has to survive a restart: everything it copied is in
//! the registry, and running it again skips existing content. [`margrave_oci::mirror`] defines the repository names.

mod job;
mod transfer;
mod work;

pub use job::Copies;

use crate::app::access::Caller;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::paging::whole;
use crate::catalog::registry::Source;
use crate::registry::hosted::Hosted;
use crate::state::ServerState;
use job::Job;
use margrave_api::applications::ImportApplication;
use margrave_api::copies::{Copy, CreateCopy};
use margrave_api::page::Page;
use margrave_oci::reference::canonical_host;
use margrave_oci::{Credentials, Platform, Reference, mirror};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use work::{CopyRequest, Work};

/// Images named explicitly; an application has a few.
const IMAGES_MAX: usize = 200;
const PLATFORMS_MAX: usize = 20;
const LOGINS_MAX: usize = 20;

/// Starts a copy. Credentials of the request are used for it and not stored; otherwise the stored ones are used.
pub async fn create(state: &ServerState, caller: &Caller, body: CreateCopy) -> AppResult<Copy> {
    let hosted = hosted(state)?;
    let reason = body.comment.clone();
    let work = read(state, body).await?;
    let id = Uuid::new_v4();
    let actor = caller.actor(reason);
    let job =
        Job::new(id, work.source.reference.to_string(), actor.name.clone(), state.now(), state.stopping.child_token());
    hosted.copies.admit(&job)?;
    let after = json!({
        "source": job.source(),
        "images": work.images.iter().map(Reference::image).collect::<Vec<_>>(),
        "platforms": work.platforms.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    let copy = job.show();
    let store = caller.store(state, &copy);
    let recorded = store.audit_append(&actor, "registry.copy", &format!("copy/{id}"), Some(after), state.now()).await;
    if let Err(error) = recorded {
        hosted.copies.forget(id);
        return Err(error.into());
    }
    tokio::spawn(work::run(state.clone(), Arc::clone(hosted), job, work, actor));
    Ok(copy)
}

pub fn list(state: &ServerState) -> AppResult<Page<Copy>> {
    Ok(whole(hosted(state)?.copies.list()))
}

pub fn get(state: &ServerState, id: &str) -> AppResult<Copy> {
    Ok(find(state, id)?.show())
}

/// Cancels a copy; what it has already copied stays.
pub async fn cancel(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<()> {
    let job = find(state, id)?;
    let subject = format!("copy/{}", job.id());
    state.store.audit_append(&caller.actor(reason), "registry.copy-cancel", &subject, None, state.now()).await?;
    job.cancel();
    Ok(())
}

fn find(state: &ServerState, id: &str) -> AppResult<Arc<Job>> {
    let found = id.parse().ok().and_then(|id| hosted(state).ok()?.copies.get(id));
    found.ok_or_else(|| {
        let detail = format!("copy `{id}` does not exist; copies are lost when the server restarts: start it again, existing content is skipped");
        AppError::refused(Code::NotFound, detail)
    })
}

fn hosted(state: &ServerState) -> AppResult<&Arc<Hosted>> {
    let off = || AppError::refused(Code::NotFound, "the embedded registry is off; `registry.enabled` switches it on");
    state.registry.as_ref().ok_or_else(off)
}

/// All problems that can be found without a request.
async fn read(state: &ServerState, body: CreateCopy) -> AppResult<Work> {
    let CreateCopy { source, username, password, logins, plain_http, ca, images, platforms, comment: _ } = body;
    let given = CopyRequest { plain_http, ca: ca.clone() };
    let source = ImportApplication { source, username, password, plain_http, ca, comment: None };
    let mut source = Source::of(state, &source).await?;
    // Invalid certificates are reported now.
    source.registry()?;
    if images.len() > IMAGES_MAX || platforms.len() > PLATFORMS_MAX || logins.len() > LOGINS_MAX {
        let detail =
            format!("name at most {IMAGES_MAX} images, {PLATFORMS_MAX} platforms and {LOGINS_MAX} logins in a copy");
        return Err(AppError::refused(Code::Invalid, detail));
    }
    mirrored(&source.reference).map_err(|problem| AppError::invalid("source", problem))?;
    let mut read = Vec::with_capacity(images.len());
    for (index, image) in images.iter().enumerate() {
        let field = format!("images[{index}]");
        let reference = Reference::parse_image(image).and_then(|image| mirrored(&image).map(|_| image));
        read.push(reference.map_err(|problem| AppError::invalid(&field, problem))?);
    }
    let platforms = platforms.iter().enumerate().map(|(index, text)| {
        text.parse::<Platform>().map_err(|problem| AppError::invalid(&format!("platforms[{index}]"), problem))
    });
    let platforms = platforms.collect::<AppResult<Vec<_>>>()?;
    let mut known = HashMap::new();
    for (index, login) in logins.into_iter().enumerate() {
        let credentials = Credentials::new(Some(login.username), Some(login.password))
            .map_err(|(field, message)| AppError::invalid(&format!("logins[{index}].{field}"), message))?;
        known.insert(canonical_host(&login.host), credentials);
    }
    // A login for the registry of the package counts as given.
    if source.used.username.is_none() || source.used.saved_login {
        let login = known.get(&canonical_host(&source.reference.host)).cloned().flatten();
        if let Some(credentials) = login {
            source.used.username = Some(credentials.username().to_owned());
            source.used.saved_login = false;
            source.connection.credentials = Some(credentials);
        }
    }
    Ok(Work { source, given, images: read, platforms, logins: known })
}

/// The repository of a copy.
pub(crate) fn mirrored(reference: &Reference) -> Result<crate::registry::RepositoryName, String> {
    let name = mirror::repository(&reference.host, &reference.repository)
        .ok_or_else(|| format!("`{}` cannot be part of the name of a repository", reference.host))?;
    name.parse().map_err(|error: crate::registry::NameError| error.to_string())
}
