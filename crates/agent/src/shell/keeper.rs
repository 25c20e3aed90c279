//! Keeps what the outside gives: identity, connection, trust bundle, capabilities. All of it may change while running.

use super::AgentError;
use crate::codes::Code;
use crate::config::AgentConfig;
use crate::enrol::{self, EnrolError, Enrolment};
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

/// After a failed refresh of the trust bundle the next try comes this soon: it is small and matters.
const REFRESH_RETRY: Duration = Duration::from_mins(1);

/// What keeps the device from its server is said again this often: whoever looks at the log finds it without going back for hours.
const REMINDER: Duration = Duration::from_mins(10);

/// A certificate that ends within this time is worth a warning.
const EXPIRY_WARNING: Duration = Duration::from_hours(72);

pub(super) struct Keeper {
    pub(super) config: AgentConfig,
    pub(super) preload: super::preload::Watch,
    clock: Arc<dyn Clock>,
    started: Timestamp,
    host: Host,
    link: Option<Link>,
    /// The last complaint about the identity, so that it is not logged at every look.
    identity_problem: Option<String>,
    /// When it was last logged.
    identity_told: Timestamp,
    devices: Option<Vec<DeviceReport>>,
    devices_from: Option<(DeviceId, Digest)>,
    refresh: Refresh,
    first_boot: FirstBoot,
    /// Why enrolment at first boot has not worked yet, and since when.
    enrolment_problem: Option<(String, Timestamp)>,
    hold: Option<Hold>,
    hold_watch: hold::Watch,
}

struct Link {
    wfm: Wfm,
    identity: Arc<Identity>,
    since: Timestamp,
}

/// Enrolment of a device that was set up without an identity.
enum FirstBoot {
    /// `pause` comes after the next failure and grows.
    Due {
        at: Timestamp,
        pause: Duration,
    },
    Running {
        task: JoinHandle<Result<Option<Enrolment>, EnrolError>>,
        pause: Duration,
    },
}

enum Refresh {
    Due(Timestamp),
    Running(JoinHandle<Result<Option<Duration>, trust::TrustError>>),
}

impl Keeper {
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
            enrolment_problem: None,
            hold: None,
            hold_watch: hold::Watch::default(),
        };
        // A capabilities file that cannot be used is told at once rather than in a log nobody reads.
        if let Some(own) = keeper.config.device.id.clone() {
            keeper.read_devices(&own)?;
        }
        Ok(keeper)
    }

    /// The connection to use now, or why there is none.
    pub(super) fn link(&self) -> Result<Wfm, Answer> {
        match &self.link {
            Some(link) => Ok(link.wfm.clone()),
            None => {
                let message = self.identity_problem.clone().unwrap_or_else(|| "not loaded yet".to_owned());
                Err(Answer::Failed { code: Code::IdentityUnusable, message })
            }
        }
    }

    /// What keeps this device from speaking to its server at all; the machine cannot know, it is never asked.
    pub(super) fn trouble(&self, now: Timestamp) -> Option<Trouble> {
        if self.link.is_some() {
            return None;
        }
        let (code, message, since) = match (&self.enrolment_problem, &self.identity_problem) {
            (Some((message, since)), _) => (Code::EnrolmentRefused, message, *since),
            (None, Some(message)) => (Code::IdentityUnusable, message, self.started),
            (None, None) => return None,
        };
        let retry_at = match &self.first_boot {
            FirstBoot::Due { at, .. } if self.enrolment_problem.is_some() => Some((*at).max(now)),
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

    /// The technician's hold, when it is another than at the last look.
    pub(super) fn check_hold(&mut self) -> Option<Input> {
        let found = self.hold_watch.look(&self.config.state_dir, &hold::moment(&*self.clock));
        if found == self.hold {
            return None;
        }
        self.hold.clone_from(&found);
        // The capability report tells it, so it is made anew.
        self.devices_from = None;
        Some(Input::Hold(found))
    }

    pub(super) fn take_devices(&mut self) -> Option<Vec<DeviceReport>> {
        self.devices.take()
    }

    /// Looks at everything that may have changed; says what is worth saying.
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
                // Remembered, so that the same broken file is told once.
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

    /// Files are read anew, so that an identity can be swapped under a running agent (LC-05, ONB-06).
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
                    Ok(()) if swapped => self.tell_identity(now, events),
                    Ok(()) => {}
                    Err(message) => self.identity_trouble(message, events),
                }
            }
            // A token that lay ready is being used: what comes of it is told next.
            Err(IdentityError::None) if matches!(self.first_boot, FirstBoot::Running { .. }) => {}
            // What is in use stays in use: a half-written file must not cut the device off.
            Err(error) => {
                let waiting = identity::waits_for(&self.config).filter(|_| error == IdentityError::None);
                self.identity_trouble(waiting.unwrap_or_else(|| error.to_string()), events);
            }
        }
    }

    /// Without an identity, a token that lies ready is used.
    async fn check_first_boot(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.now();
        match &mut self.first_boot {
            FirstBoot::Due { at, pause } if *at <= now => {
                let has_identity = self.link.is_some() || IdentityFiles::of(&self.config).certificate.exists();
                if self.config.trust.token_file.is_none() || has_identity {
                    return;
                }
                let (config, clock) = (self.config.clone(), Arc::clone(&self.clock));
                let task = tokio::spawn(async move { enrol::enrol_from_file(&config, clock).await });
                self.first_boot = FirstBoot::Running { task, pause: *pause };
            }
            FirstBoot::Running { task, pause } if task.is_finished() => {
                let pause = *pause;
                let message = match task.await {
                    Ok(Ok(enrolled)) => {
                        if let Some(Enrolment { spiffe_id, wfm_url, .. }) = enrolled {
                            let message = format!("enrolled as `{spiffe_id}` with {wfm_url}");
                            events.push(Event { level: Level::Info, code: None, deployment: None, message });
                        }
                        self.first_boot = FirstBoot::Due { at: now, pause: self.config.retry.first };
                        self.enrolment_problem = None;
                        return;
                    }
                    Ok(Err(error)) => chain(&error),
                    Err(_) => "it broke off".to_owned(),
                };
                let since = self.enrolment_problem.take().map_or(now, |(_, since)| since);
                events.push(event(Level::Error, Code::EnrolmentRefused, format!("enrol at first boot: {message}")));
                self.enrolment_problem = Some((message, since));
                let next = (pause * 2).min(self.config.retry.max);
                self.first_boot = FirstBoot::Due { at: now.plus(pause), pause: next };
            }
            FirstBoot::Due { .. } | FirstBoot::Running { .. } => {}
        }
    }

    fn tell_identity(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.identity_problem = None;
        let Some(link) = &self.link else { return };
        let mut message = format!("identity is `{}`", link.identity.client);
        let mut level = Level::Info;
        if link.identity.not_after < now.plus(EXPIRY_WARNING) {
            level = Level::Warn;
            message =
                format!("{message}; its certificate ends at {}: renew it or enrol again", link.identity.not_after);
        }
        events.push(Event { level, code: None, deployment: None, message });
    }

    fn identity_trouble(&mut self, message: String, events: &mut Vec<Event>) {
        let now = self.clock.now();
        // A failed enrolment is told at each try, and says more.
        let forgotten =
            self.link.is_none() && self.enrolment_problem.is_none() && now.since(self.identity_told) >= REMINDER;
        if self.identity_problem.as_ref() != Some(&message) || forgotten {
            events.push(event(Level::Error, Code::IdentityUnusable, message.clone()));
            self.identity_problem = Some(message);
            self.identity_told = now;
        }
    }

    fn connect(&mut self, identity: Identity, now: Timestamp) -> Result<(), String> {
        let server = self.server().ok_or("no server is configured: set `server`, or enrol")?;
        let tls = tls::wfm_config(&identity, Arc::clone(&self.clock)).map_err(|error| chain(&error))?;
        let client = http::client(tls, &self.config.http, self.config.proxy.as_ref()).map_err(|error| chain(&error))?;
        self.link = Some(Link {
            wfm: Wfm::new(client, server, self.config.http.request_timeout),
            identity: Arc::new(identity),
            since: now,
        });
        Ok(())
    }

    fn server(&self) -> Option<Url> {
        let enrolled = || Enrolment::load(&self.config.state_dir).map(|enrolment| enrolment.wfm_url);
        self.config.server.clone().or_else(enrolled)
    }

    /// TB-05: at the bundle's own hint, else at the operator's interval.
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
