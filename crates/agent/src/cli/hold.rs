//! `hold`: a technician starts or ends a maintenance hold.

use anyhow::Context as _;
use margrave_agent::{disk, hold};
use margrave_core::hold::{HOLD_MAX, REASON_CHARS_MAX};
use margrave_core::time::Clock;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

pub(super) fn command(
    state_dir: &Path,
    length: Option<Duration>,
    reason: Option<String>,
    end: bool,
    clock: &dyn Clock,
) -> anyhow::Result<u8> {
    anyhow::ensure!(
        state_dir.exists(),
        "the state folder `{}` does not exist: has the agent ever run here? Set another one with `--state-dir`",
        state_dir.display()
    );
    disk::check_format(state_dir)?;
    let mut out = anstream::stdout();
    let now = hold::moment(clock);
    if end {
        let ended = hold::end(state_dir).with_context(|| format!("end the hold in `{}`", state_dir.display()))?;
        writeln!(
            out,
            "{}",
            if ended { "maintenance hold ended, changes continue" } else { "there was no maintenance hold" }
        )?;
        return Ok(super::EXIT_OK);
    }
    let length = length.unwrap_or_default();
    anyhow::ensure!(!length.is_zero(), "`--for` must be greater than zero, such as `2h`");
    let days = HOLD_MAX.as_secs() / 86_400;
    anyhow::ensure!(length <= HOLD_MAX, "a hold lasts at most {days} days: start another one afterwards");
    let reason = reason.unwrap_or_default();
    let reason = reason.trim();
    anyhow::ensure!(!reason.is_empty(), "give a reason with `--comment`: the operators see it in the fleet manager");
    let count = reason.chars().count();
    anyhow::ensure!(count <= REASON_CHARS_MAX, "the reason has {count} characters, the limit is {REASON_CHARS_MAX}");
    hold::begin(state_dir, reason, length, &now)?;
    let until = hold::find(state_dir, &now).map(|(hold, _)| hold.until.to_string()).unwrap_or_default();
    writeln!(
        out,
        "no changes until {until}; a running agent applies the hold within seconds and reports it to the fleet manager"
    )?;
    writeln!(out, "end it earlier with `margrave-agent hold --end`")?;
    Ok(super::EXIT_OK)
}
