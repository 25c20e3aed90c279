//! The audit log: search and paging.

use super::error::AppResult;
use super::events::Order;
use super::overview;
use super::paging::{Paging, cursor, page};
use super::period::{End, Period};
use crate::state::ServerState;
use margrave_api::access as wire;
use margrave_api::page::Page;
use margrave_core::model::AuditRecord;
use margrave_store::AuditFilter;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// Records scanned for one page of a search.
const LOOKED_AT: i64 = 50_000;
/// Records scanned for recent actors.
const ACTORS_LOOKED_AT: u32 = 5_000;
/// Applications matched by part of a name.
const MATCHING_MAX: usize = 20;
/// How far the clock may have been set back without a search by time missing records.
const CLOCK_SKEW_MAX: Duration = Duration::from_hours(1);

/// Newest first. Sensitive values are masked when records are written, so records are shown unchanged.
pub async fn list(
    state: &ServerState,
    subject: Option<&str>,
    before: Option<i64>,
    paging: &Paging,
) -> AppResult<Page<wire::AuditRecord>> {
    let limit = paging.limit()?;
    let before = paging.after()?.or(before);
    let rows = state.store.audit_page(subject, before, limit + 1).await?;
    Ok(page(rows, limit, |record| record.seq.to_string(), to_wire))
}

/// Filter for records; absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pub actor: Option<String>,
    /// An action or its prefix up to a dot.
    pub action: Option<String>,
    /// Part of the name of the target, case-insensitive.
    pub about: Option<String>,
    /// The exact target.
    pub of: Option<String>,
    /// Not older than this time or day.
    pub since: Option<String>,
    /// Older than this time, or not newer than this day.
    pub until: Option<String>,
}

/// Filtered by the query. `before` ends the newest-first order earlier.
pub async fn search(
    state: &ServerState,
    query: &Query,
    before: Option<i64>,
    order: Order,
    paging: &Paging,
) -> AppResult<Page<wire::AuditRecord>> {
    let period = Period::read(
        End { field: "since", text: query.since.as_deref() },
        End { field: "until", text: query.until.as_deref() },
    )?;
    let names = overview::get(state).await?;
    let about = query.about.as_ref().map(|text| text.to_lowercase());
    let filter = AuditFilter {
        actor: query.actor.clone(),
        action: query.action.clone(),
        text: about.as_deref().map(|text| bare(text).to_owned()),
        applications: about.as_deref().map(|text| mentioned(text, &names.names)).unwrap_or_default(),
        of: query.of.clone(),
        since: period.since,
        until: period.until,
    };
    let limit = paging.limit()?;
    let (first, behind) = bounds(state, period).await?;
    // The chain only grows, so one page scans a part of it; the next page continues there.
    let mut range = match order {
        Order::Newest => {
            let before = paging.after()?.or(before).unwrap_or(behind).min(behind);
            ((before - 1 - LOOKED_AT).max(first - 1), before)
        }
        Order::Oldest => {
            let above = paging.after()?.unwrap_or(first - 1).max(first - 1);
            (above, behind.min(above.saturating_add(1 + LOOKED_AT)))
        }
    };
    let (start, end) = range;
    let mut found = Vec::new();
    while found.len() <= limit as usize {
        let rows = state.store.audit_search(&filter, range.0, range.1, order.into(), limit + 1).await?;
        let more = rows.len() > limit as usize;
        match (order, rows.last()) {
            (_, None) => {}
            (Order::Newest, Some(last)) => range.1 = last.seq,
            (Order::Oldest, Some(last)) => range.0 = last.seq,
        }
        found.extend(
            rows.into_iter().filter(|record| about.as_deref().is_none_or(|text| is_about(record, text, &names.names))),
        );
        if !more {
            break;
        }
    }
    found.truncate(limit as usize + 1);
    let mut found = page(found, limit, |record| record.seq.to_string(), to_wire);
    if found.next.is_none() {
        found.next = match order {
            Order::Newest => (start > first - 1).then(|| cursor(&(start + 1).to_string())),
            Order::Oldest => (end < behind).then(|| cursor(&(end - 1).to_string())),
        };
    }
    Ok(found)
}

/// The range of records that a period can include: from the first, up to but excluding the second.
async fn bounds(state: &ServerState, period: Period) -> AppResult<(i64, i64)> {
    let first = match period.since {
        Some(since) => state.store.audit_seq_at(since.minus(CLOCK_SKEW_MAX)).await?,
        None => 1,
    };
    let behind = match period.until {
        Some(until) => state.store.audit_seq_at(until.plus(CLOCK_SKEW_MAX)).await?,
        None => state.store.audit_newest_seq().await? + 1,
    };
    Ok((first, behind))
}

/// Actors of recent records, without devices.
pub async fn actors(state: &ServerState) -> AppResult<Vec<String>> {
    Ok(state.store.audit_actors(ACTORS_LOOKED_AT).await?)
}

pub async fn verify(state: &ServerState) -> AppResult<wire::AuditVerification> {
    Ok(match state.store.audit_verify().await? {
        Ok(records) => wire::AuditVerification { intact: true, records, broken_at: None },
        Err(seq) => {
            let records = u64::try_from(seq.saturating_sub(1)).unwrap_or(0);
            wire::AuditVerification { intact: false, records, broken_at: Some(seq) }
        }
    })
}

/// The target of a record, in the names people use.
pub(crate) fn about(subject: &str, state: Option<&Value>, names: &HashMap<String, String>) -> String {
    let text = |member: &str| state.and_then(|state| state.get(member)).and_then(Value::as_str);
    let name = |id: &str| names.get(id).cloned().unwrap_or_else(|| id.to_owned());
    let (noun, rest) = subject.split_once('/').unwrap_or((subject, ""));
    match noun {
        "deployment" => {
            let application = text("application").map_or_else(|| "a deployment".to_owned(), name);
            let place = text("target").map(|target| format!(" on {target}")).unwrap_or_default();
            format!("{application}{place}")
        }
        "rollout" => {
            let application = text("application").map_or_else(String::new, |id| format!(" of {}", name(id)));
            format!("change{application}")
        }
        "device" => format!("device {}", rest.split_once('/').map_or(rest, |(_, device)| device)),
        "application" => {
            let (id, version) = rest.split_once('/').unwrap_or((rest, ""));
            format!("{} {version}", name(id))
        }
        "token" | "session" => format!("{noun} of {}", text("name").unwrap_or("an operator")),
        _ if rest.is_empty() => noun.to_owned(),
        noun => format!("{noun} {rest}"),
    }
}

/// Whether the target has this name: as shown, as stored, or by its client.
fn is_about(record: &AuditRecord, text: &str, names: &HashMap<String, String>) -> bool {
    let state = record.after.as_ref().or(record.before.as_ref());
    let member = |name: &str| state.and_then(|state| state.get(name)).and_then(Value::as_str).unwrap_or_default();
    let shown = about(&record.subject, state, names);
    [shown.as_str(), &record.subject, member("client"), member("application"), member("name")]
        .iter()
        .any(|known| known.to_lowercase().contains(text))
}

/// Applications whose name contains the search text or is contained in it.
fn mentioned(text: &str, names: &HashMap<String, String>) -> Vec<String> {
    let known = |name: &String| {
        let name = name.to_lowercase();
        name.contains(text) || text.contains(&name)
    };
    let mut ids: Vec<String> = names.iter().filter(|(_, name)| known(name)).map(|(id, _)| id.clone()).collect();
    ids.sort_unstable();
    ids.truncate(MATCHING_MAX);
    ids
}

/// `group by-night` as shown is stored as `group/by-night`.
fn bare(text: &str) -> &str {
    let nouns = ["group ", "device ", "client ", "token of ", "session of "];
    nouns.iter().find_map(|noun| text.strip_prefix(noun)).filter(|rest| !rest.is_empty()).unwrap_or(text)
}

fn to_wire(record: AuditRecord) -> wire::AuditRecord {
    let AuditRecord {
        seq,
        at,
        actor,
        comment: reason,
        request_id,
        action,
        subject,
        before,
        after,
        previous_hash,
        hash,
    } = record;
    let at = at.to_string();
    wire::AuditRecord {
        seq,
        at,
        actor,
        comment: reason,
        request_id,
        action,
        subject,
        before,
        after,
        previous_hash,
        hash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margrave_core::time::Timestamp;
    use serde_json::json;

    fn record(subject: &str, after: Value) -> AuditRecord {
        AuditRecord {
            seq: 1,
            at: Timestamp(0),
            actor: "token:admin".to_owned(),
            comment: None,
            request_id: None,
            action: "anything".to_owned(),
            subject: subject.to_owned(),
            before: None,
            after: Some(after),
            previous_hash: String::new(),
            hash: String::new(),
        }
    }

    #[test]
    fn finds_records_by_their_displayed_name() {
        let names = HashMap::from([("line-monitor".to_owned(), "Line Monitor".to_owned())]);
        let deployment =
            json!({ "application": "line-monitor", "client": "gw-1", "target": "gw-1/press-07", "digest": "f00" });
        for (subject, after, text, found) in [
            ("deployment/1", deployment.clone(), "line mon", true),
            ("deployment/1", deployment.clone(), "line monitor on gw-1/press-07", true),
            ("deployment/1", deployment.clone(), "press-07", true),
            ("deployment/1", deployment, "f00", false),
            ("rollout/2", json!({ "application": "line-monitor" }), "change of line", true),
            ("client/press-07", json!({}), "client press", true),
            ("device/gw-1/gw-1/press-07", json!({}), "ess-07", true),
            ("group/by-night", json!({ "selector": "press=1" }), "group by", true),
            ("group/by-night", json!({ "selector": "press=1" }), "press", false),
            ("token/3", json!({ "name": "night shift" }), "night shift", true),
            ("application/line-monitor/1.0.0", json!({}), "monitor 1.0", true),
        ] {
            assert_eq!(is_about(&record(subject, after), text, &names), found, "{subject}: {text}");
        }
        assert_eq!((bare("group by-night"), bare("group "), bare("press")), ("by-night", "group ", "press"));
    }
}
