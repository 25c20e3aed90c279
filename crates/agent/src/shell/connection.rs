//! Manages identity, connection, trust bundle and capabilities, which may all change while the agent runs.

use super::AgentError;
use crate::codes::Code;
use crate::config::AgentConfig;
use crate::enroll::{self, EnrollError, Enrollment};
use crate::facts::{self, Host};
use crate::hold;
use crate::http::{self, Wfm};
use crate::identity::{self, Identity, IdentityError, IdentityFiles};
use crate::machine::io::{Answer, DeviceReport, Event, Hold, Input, Level};
use crate::machine::report::Trouble;
use crate::{tls, trust};
use margo::{DeviceId, Digest};
use margrave_core::time::{Clock, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use url::Url;

/// Retry delay after a failed refresh of the trust bundle.
const REFRESH_RETRY: Duration = Duration::from_mins(1);

/// Problems that prevent contact to the server are logged again this often, so that they are easy to find.
const REMINDER: Duration = Duration::from_mins(10);

/// A certificate that expires within this time causes a warning.
const EXPIRY_WARNING: Duration = Duration::from_hours(72);

pub(super) struct ConnectionManager {
    pub(super) config: AgentConfig,
    pub(super) preload: super::preload::Watch,
    clock: Arc<dyn Clock>,
    started: Timestamp,
    host: Host,
    link: Option<Connection>,
    /// The last problem of the identity, so that it is not logged at every check.
    identity_problem: Option<String>,
    /// When it was last logged.
    identity_told: Timestamp,
    devices: Option<Vec<DeviceReport>>,
    devices_from: Option<(DeviceId, Digest)>,
    refresh: Refresh,
    first_boot: FirstBoot,
    /// Why enrollment at first boot has not worked yet, and since when.
    enrollment_problem: Option<(String, Timestamp)>,
    hold: Option<Hold>,
    hold_watch: hold::Watch,
}

struct Connection {
    wfm: Wfm,
    identity: Arc<Identity>,
    since: Timestamp,
}

/// Enrollment of a device that was set up without an identity.
enum FirstBoot {
    /// `pause` follows the next failure and grows.
    Due {
        at: Timestamp,
        pause: Duration,
    },
    Running {
        task: JoinHandle<Result<Option<Enrollment>, EnrollError>>,
        pause: Duration,
    },
}

enum Refresh {
    Due(Timestamp),
    Running(JoinHandle<Result<Option<Duration>, trust::TrustError>>),
}

impl ConnectionManager {
    pub(super) fn new(config: AgentConfig, clock: Arc<dyn Clock>, host: Host) -> Result<Self, AgentError> {
        let now = clock.now();
        let pause = config.retry.first;
        let mut keeper = Self {
            config,
            preload: super::preload::Watch::default(),
            clock,
            started: now,
            host,
            link: None,
            identity_problem: None,
            identity_told: now,
            devices: None,
            devices_from: None,
            refresh: Refresh::Due(now),
            first_boot: FirstBoot::Due { at: now, pause },
            enrollment_problem: None,
            hold: None,
            hold_watch: hold::Watch::default(),
        };
        // An unusable capabilities file is an error at start, not only a log message.
        if let Some(own) = keeper.config.device.id.clone() {
            keeper.read_devices(&own)?;
        }
        Ok(keeper)
    }

    /// The current connection, or why there is none.
    pub(super) fn link(&self) -> Result<Wfm, Answer> {
        match &self.link {
            Some(link) => Ok(link.wfm.clone()),
            None => {
                let message = self.identity_problem.clone().unwrap_or_else(|| "not loaded yet".to_owned());
                Err(Answer::Failed { code: Code::IdentityUnusable, message })
            }
        }
    }

    /// Problems that prevent any contact to the server; the machine does not know them.
    pub(super) fn trouble(&self, now: Timestamp) -> Option<Trouble> {
        if self.link.is_some() {
            return None;
        }
        let (code, message, since) = match (&self.enrollment_problem, &self.identity_problem) {
            (Some((message, since)), _) => (Code::EnrollmentRefused, message, *since),
            (None, Some(message)) => (Code::IdentityUnusable, message, self.started),
            (None, None) => return None,
        };
        let retry_at = match &self.first_boot {
            FirstBoot::Due { at, .. } if self.enrollment_problem.is_some() => Some((*at).max(now)),
            _ => None,
        };
        Some(Trouble {
            about: "identity".to_owned(),
            code,
            title: code.title().to_owned(),
            message: message.clone(),
            since,
            retry_at,
            security: code.is_security(),
        })
    }

    /// The maintenance hold, if it changed since the last check.
    pub(super) fn check_hold(&mut self) -> Option<Input> {
        let found = self.hold_watch.look(&self.config.state_dir, &hold::moment(&*self.clock));
        if found == self.hold {
            return None;
        }
        self.hold.clone_from(&found);
        // The capability report contains it, so it is built again.
        self.devices_from = None;
        Some(Input::Hold(found))
    }

    pub(super) fn take_devices(&mut self) -> Option<Vec<DeviceReport>> {
        self.devices.take()
    }

    /// Checks everything that may have changed; returns log events.
    pub(super) async fn check(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.check_first_boot(&mut events).await;
        self.check_identity(&mut events);
        self.check_refresh(&mut events).await;
        let own = self.own_device();
        if let Some(own) = own {
            let fingerprint = facts::fingerprint(&self.config);
            let news = self.devices_from.as_ref().is_none_or(|(id, seen)| *id != own || *seen != fingerprint);
            if news && let Err(error) = self.read_devices(&own) {
                // Recorded, so that the same broken file is reported once.
                self.devices_from = Some((own, fingerprint));
                events.push(event(Level::Error, Code::CapabilitiesUnreadable, error.to_string()));
            }
        }
        events
    }

    fn own_device(&self) -> Option<DeviceId> {
        let from_identity = || self.link.as_ref().and_then(|link| link.identity.client.client_id.as_str().parse().ok());
        self.config.device.id.clone().or_else(from_identity)
    }

    fn read_devices(&mut self, own: &DeviceId) -> Result<(), facts::FactsError> {
        let fingerprint = facts::fingerprint(&self.config);
        self.devices = Some(facts::reports(&self.config, own, self.host, self.hold.as_ref())?);
        self.devices_from = Some((own.clone(), fingerprint));
        Ok(())
    }

    /// Files are read again, so that the identity of a running agent can be replaced (LC-05, ONB-06).
    fn check_identity(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.now();
        let identity = IdentityFiles::of(&self.config).load();
        match identity {
            Ok(identity) => {
                let same = self.link.as_ref().filter(|link| link.identity.fingerprint == identity.fingerprint);
                // TLS-03: connections have an age limit, and do not outlive a change of identity or bundle.
                if same.is_some_and(|link| now.since(link.since) < self.config.http.connection_age_max) {
                    return;
                }
                let swapped = same.is_none();
                match self.connect(identity, now) {
                    Ok(()) if swapped => self.log_identity(now, events),
                    Ok(()) => {}
                    Err(message) => self.identity_trouble(message, events),
                }
            }
            // Enrollment with a token file is running: its result is reported next.
            Err(IdentityError::None) if matches!(self.first_boot, FirstBoot::Running { .. }) => {}
            // The current identity stays in use: a half-written file must not disconnect the device.
            Err(error) => {
                let waiting = identity::waiting_reason(&self.config).filter(|_| error == IdentityError::None);
                self.identity_trouble(waiting.unwrap_or_else(|| error.to_string()), events);
            }
        }
    }

    /// Without an identity, enrolls with a token file if there is one.
    async fn check_first_boot(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.now();
        match &mut self.first_boot {
            FirstBoot::Due { at, pause } if *at <= now => {
                let has_identity = self.link.is_some() || IdentityFiles::of(&self.config).certificate.exists();
                if self.config.trust.token_file.is_none() || has_identity {
                    return;
                }
                let (config, clock) = (self.config.clone(), Arc::clone(&self.clock));
                let task = tokio::spawn(async move { enroll::enroll_from_file(&config, clock).await });
                self.first_boot = FirstBoot::Running { task, pause: *pause };
            }
            FirstBoot::Running { task, pause } if task.is_finished() => {
                let pause = *pause;
                let message = match task.await {
                    Ok(Ok(enrolled)) => {
                        if let Some(Enrollment { spiffe_id, wfm_url, .. }) = enrolled {
                            let message = format!("enrolled as `{spiffe_id}` with {wfm_url}");
                            events.push(Event { level: Level::Info, code: None, deployment: None, message });
                        }
                        self.first_boot = FirstBoot::Due { at: now, pause: self.config.retry.first };
                        self.enrollment_problem = None;
                        return;
                    }
                    Ok(Err(error)) => chain(&error),
                    Err(_) => "the task failed".to_owned(),
                };
                let since = self.enrollment_problem.take().map_or(now, |(_, since)| since);
                events.push(event(Level::Error, Code::EnrollmentRefused, format!("enroll at first boot: {message}")));
                self.enrollment_problem = Some((message, since));
                let next = (pause * 2).min(self.config.retry.max);
                self.first_boot = FirstBoot::Due { at: now.plus(pause), pause: next };
            }
            FirstBoot::Due { .. } | FirstBoot::Running { .. } => {}
        }
    }

    fn log_identity(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.identity_problem = None;
        let Some(link) = &self.link else { return };
        let mut message = format!("identity is `{}`", link.identity.client);
        let mut level = Level::Info;
        if link.identity.not_after < now.plus(EXPIRY_WARNING) {
            level = Level::Warn;
            message =
                format!("{message}; its certificate expires at {}: renew it or enroll again", link.identity.not_after);
        }
        events.push(Event { level, code: None, deployment: None, message });
    }

    fn identity_trouble(&mut self, message: String, events: &mut Vec<Event>) {
        let now = self.clock.now();
        // A failed enrollment is logged at each attempt, with more detail.
        let forgotten =
            self.link.is_none() && self.enrollment_problem.is_none() && now.since(self.identity_told) >= REMINDER;
        if self.identity_problem.as_ref() != Some(&message) || forgotten {
            events.push(event(Level::Error, Code::IdentityUnusable, message.clone()));
            self.identity_problem = Some(message);
            self.identity_told = now;
        }
    }

    fn connect(&mut self, identity: Identity, now: Timestamp) -> Result<(), String> {
        let server = self.server().ok_or("no server is configured: set `server`, or enroll")?;
        let tls = tls::wfm_config(&identity, Arc::clone(&self.clock)).map_err(|error| chain(&error))?;
        let client = http::client(tls, &self.config.http, self.config.proxy.as_ref()).map_err(|error| chain(&error))?;
        self.link = Some(Connection {
            wfm: Wfm::new(client, server, self.config.http.request_timeout),
            identity: Arc::new(identity),
            since: now,
        });
        Ok(())
    }

    fn server(&self) -> Option<Url> {
        let enrolled = || Enrollment::load(&self.config.state_dir).map(|enrollment| enrollment.wfm_url);
        self.config.server.clone().or_else(enrolled)
    }

    /// TB-05: at the refresh hint of the bundle, else at the configured interval.
    async fn check_refresh(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.now();
        let Some(link) = &self.link else { return };
        match &mut self.refresh {
            Refresh::Due(due) if *due <= now => {
                let (config, clock) = (self.config.clone(), Arc::clone(&self.clock));
                let own = link.identity.client.wfm.trust_domain.clone();
                let task = tokio::spawn(async move { trust::refresh(&config, &own, clock).await });
                self.refresh = Refresh::Running(task);
            }
            Refresh::Running(task) if task.is_finished() => {
                let next = match task.await {
                    Ok(Ok(next)) => next.unwrap_or(self.config.trust.refresh),
                    Ok(Err(error)) => {
                        let code = match &error {
                            trust::TrustError::Unreachable { .. } | trust::TrustError::Status { .. } => {
                                Code::ServerUnreachable
                            }
                            _ => Code::TrustBundleRefused,
                        };
                        events.push(event(Level::Warn, code, format!("refresh the trust bundle: {}", chain(&error))));
                        REFRESH_RETRY
                    }
                    Err(_) => REFRESH_RETRY,
                };
                self.refresh = Refresh::Due(now.plus(next));
            }
            Refresh::Due(_) | Refresh::Running(_) => {}
        }
    }
}

fn event(level: Level, code: Code, message: String) -> Event {
    Event { level, code: Some(code), deployment: None, message }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        text = format!("{text}: {current}");
        cause = current.source();
    }
    text
}

#[cfg(test)]
mod tests;
