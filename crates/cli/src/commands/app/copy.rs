//! `margrave app import --with-images`: the server copies, this command shows the progress.

use super::super::{CommentArgs, Session};
use super::registry_args::RegistryArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use margrave_api::copies::{CopiedArtifact, CopiedKind, CopiedState, Copy, CopyState, CreateCopy, RegistryLogin};
use margrave_api::registries::RegistryUse;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Frequent enough for live progress, rare enough to cost little.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct CopyArgs {
    /// Copy the application with its components and images into the embedded registry
    #[arg(long)]
    pub(crate) with_images: bool,
    /// Also copy this image, such as one named only in a template; repeatable
    #[arg(long = "image", value_name = "REF", requires = "with_images")]
    images: Vec<String>,
    /// Copy only this platform of multi-platform images, such as linux/amd64; repeatable
    #[arg(long = "platform", value_name = "PLATFORM", requires = "with_images")]
    platforms: Vec<String>,
    /// Log in to an additional registry, with the password in a file; repeatable
    #[arg(long = "login", value_name = "HOST=USER:FILE", requires = "with_images")]
    logins: Vec<String>,
}

pub(crate) async fn run(
    session: &Session,
    source: String,
    registry: &RegistryArgs,
    args: CopyArgs,
    reason: CommentArgs,
) -> Outcome {
    if !source.starts_with("oci://") {
        return Err(Failure::usage(format!("`{source}` is a folder; --with-images requires an oci://… source"))
            .next("`margrave app push` pushes a folder to the embedded registry"));
    }
    let body = CreateCopy {
        source,
        username: registry.username.clone(),
        password: registry.password()?,
        logins: args.logins.iter().map(|text| login(text)).collect::<Outcome<_>>()?,
        plain_http: registry.plain_http,
        ca: registry.ca()?,
        images: args.images,
        platforms: args.platforms,
        comment: reason.comment,
    };
    let copy = session.api.create_copy(&body).await?;
    let copy = follow(session, copy).await?;
    session.out.show(&copy, |out| render(out, &copy))?;
    end(session, &copy)
}

fn login(text: &str) -> Outcome<RegistryLogin> {
    let parts = text.split_once('=').and_then(|(host, rest)| Some((host, rest.split_once(':')?)));
    let (host, (username, file)) = parts.ok_or_else(|| {
        Failure::usage(format!("--login {text}")).because("expected HOST=USER:FILE, with the password in the file")
    })?;
    let password = crate::connection::read_text(Path::new(file), "password file")?.trim().to_owned();
    Ok(RegistryLogin { host: host.to_owned(), username: username.to_owned(), password })
}

async fn follow(session: &Session, mut copy: Copy) -> Outcome<Copy> {
    let mut progress = Progress::new(session.out);
    let id = copy.id.clone();
    while !copy.state.is_over() {
        progress.show(&copy);
        tokio::time::sleep(CHECK_INTERVAL).await;
        copy = match session.api.copy(&id).await {
            Ok(copy) => copy,
            Err(error) => {
                progress.end();
                let next = "run the command again; artifacts already copied are skipped";
                return Err(Failure::from(error).because(format!("copy {id} was in progress")).next(next));
            }
        };
    }
    progress.show(&copy);
    progress.end();
    Ok(copy)
}

fn end(session: &Session, copy: &Copy) -> Outcome {
    for used in copy.registries.iter().filter_map(RegistryUse::sentence) {
        session.out.say(used);
    }
    for text in &copy.unknown {
        session.out.say(format!("warning: {text}; add it with --image if devices need it"));
    }
    match copy.state {
        CopyState::Done => {
            if let Some(application) = &copy.application {
                session.out.say(format!("Check compatibility: margrave app compatibility {}", application.id));
            }
            Ok(())
        }
        CopyState::Incomplete => {
            let missing = copy.artifacts.iter().filter(|artifact| is_missing(artifact));
            let failure = missing.fold(Failure::failed("some artifacts could not be copied"), |failure, artifact| {
                let why = artifact.message.as_deref().unwrap_or("not found");
                failure.because(format!("{}: {why}", artifact.reference))
            });
            Err(failure.next("fix the cause and run the command again; artifacts already copied are skipped"))
        }
        CopyState::Cancelled => Err(Failure::failed("the copy was cancelled; artifacts already copied stay")),
        CopyState::Failed | CopyState::Waiting | CopyState::Running => {
            let why = copy.error.clone().unwrap_or_else(|| "it ended unexpectedly".to_owned());
            let next = "fix the cause and run the command again; artifacts already copied are skipped";
            Err(Failure::new(Exit::Failed, "the copy failed").because(why).next(next))
        }
    }
}

fn is_missing(artifact: &CopiedArtifact) -> bool {
    matches!(artifact.state, CopiedState::NotFound | CopiedState::Failed)
}

fn kind(artifact: &CopiedArtifact) -> &'static str {
    match artifact.kind {
        CopiedKind::Package => "package",
        CopiedKind::Component => "component",
        CopiedKind::Image => "image",
    }
}

fn state(artifact: &CopiedArtifact) -> &'static str {
    match artifact.state {
        CopiedState::Waiting => "waiting",
        CopiedState::Copying => "copying",
        CopiedState::Copied => "copied",
        CopiedState::Present => "present",
        CopiedState::NotFound => "not found",
        CopiedState::Failed => "failed",
    }
}

fn render(out: Output, copy: &Copy) -> String {
    let mut text = out.table(
        &["kind", "reference", "state", "copied", "present"],
        copy.artifacts.iter().map(|artifact| {
            vec![
                kind(artifact).to_owned(),
                artifact.reference.clone(),
                state(artifact).to_owned(),
                HumanBytes(artifact.bytes_copied).to_string(),
                HumanBytes(artifact.bytes_present).to_string(),
            ]
        }),
    );
    if let Some(application) = &copy.application {
        let _ = writeln!(text, "\n{} {} is in the catalog.", application.id, application.version);
    }
    text
}

/// A progress line at a terminal, one line per update otherwise.
struct Progress {
    out: Output,
    bar: Option<ProgressBar>,
    shown: Vec<CopiedState>,
}

impl Progress {
    fn new(out: Output) -> Self {
        let bar = (out.talk_terminal && !out.quiet).then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is a valid constant");
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { out, bar, shown: Vec::new() }
    }

    fn show(&mut self, copy: &Copy) {
        let Some(bar) = &self.bar else { return self.report_progress(copy) };
        let over =
            copy.artifacts.iter().filter(|one| !matches!(one.state, CopiedState::Waiting | CopiedState::Copying));
        let now = copy.artifacts.last().map_or("queued", |artifact| &artifact.reference);
        let (copied, present) = (HumanBytes(copy.bytes_copied), HumanBytes(copy.bytes_present));
        bar.set_message(format!("{} done, {copied} copied, {present} already present: {now}", over.count()));
    }

    fn report_progress(&mut self, copy: &Copy) {
        for (index, artifact) in copy.artifacts.iter().enumerate() {
            let over = !matches!(artifact.state, CopiedState::Waiting | CopiedState::Copying);
            if over && self.shown.get(index) != Some(&artifact.state) {
                self.out.say(format!("{} {}: {}", kind(artifact), artifact.reference, state(artifact)));
            }
        }
        self.shown = copy.artifacts.iter().map(|artifact| artifact.state).collect();
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
