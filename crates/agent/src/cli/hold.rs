//! `hold`: a technician stops changes for a while.

use anyhow::Context as _;
use margrave_agent::hold;
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
        "there is no state folder `{}`: has the agent ever run here? Name another with `--state-dir`",
        state_dir.display()
    );
    let mut out = anstream::stdout();
    let now = hold::moment(clock);
    if end {
        let ended = hold::end(state_dir).with_context(|| format!("end the hold in `{}`", state_dir.display()))?;
        writeln!(out, "{}", if ended { "changes go on" } else { "nothing was held" })?;
        return Ok(super::EXIT_OK);
    }
    let length = length.unwrap_or_default();
    anyhow::ensure!(!length.is_zero(), "`--for` must be longer than nothing, such as `2h`");
    let days = HOLD_MAX.as_secs() / 86_400;
    anyhow::ensure!(length <= HOLD_MAX, "a hold lasts at most {days} days: begin another when it is over");
    let reason = reason.unwrap_or_default();
    let reason = reason.trim();
    anyhow::ensure!(!reason.is_empty(), "say why with `--reason`: the people at the fleet manager see it");
    let count = reason.chars().count();
    anyhow::ensure!(
        count <= REASON_CHARS_MAX,
        "the reason has {count} characters, at most {REASON_CHARS_MAX} are taken"
    );
    hold::begin(state_dir, reason, length, &now)?;
    let until = hold::find(state_dir, &now).map(|(hold, _)| hold.until.to_string()).unwrap_or_default();
    writeln!(
        out,
        "no changes until {until}; a running agent takes notice within seconds, and tells the fleet manager"
    )?;
    writeln!(out, "end it earlier with `margrave-agent hold --end`")?;
    Ok(super::EXIT_OK)
}
