//! `Accept` and `If-None-Match`, parsed leniently (W-09).

use http::{HeaderMap, HeaderName, header};

pub(super) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Whether one of these media ranges matches this media type; no header matches everything (DS-12).
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut ranges = elements(headers, &header::ACCEPT).peekable();
    if ranges.peek().is_none() {
        return true;
    }
    // The most specific range decides, whatever the order (RFC 9110, 12.5.1).
    let kind = media_type.split_once('/').map_or(media_type, |(kind, _)| kind);
    ranges
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next()?.to_ascii_lowercase();
            let precision = match name.split_once('/')? {
                ("*", "*") => 0,
                (some, "*") if some == kind => 1,
                _ if name == media_type => 2,
                _ => return None,
            };
            let weight = parts
                .filter_map(|part| part.split_once('='))
                .find(|(key, _)| key.trim().eq_ignore_ascii_case("q"))
                .map_or(1.0, |(_, value)| value.trim().parse::<f32>().unwrap_or(0.0));
            Some((precision, weight))
        })
        .max_by_key(|(precision, _)| *precision)
        .is_some_and(|(_, weight)| weight > 0.0)
}

/// Whether the caller has this entity: lists, `*`, weak and unquoted values count.
pub(crate) fn none_match(headers: &HeaderMap, etag: &str) -> bool {
    let bare = |value: &str| value.strip_prefix("W/").unwrap_or(value).trim_matches('"').to_owned();
    let etag = bare(etag);
    elements(headers, &header::IF_NONE_MATCH).any(|value| value == "*" || bare(value) == etag)
}

/// The seconds of `Prefer: wait=N` (RFC 7240); the first one counts.
pub(crate) fn wait(headers: &HeaderMap) -> Option<u64> {
    let of_one = |preference: &str| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let wait = name.trim().eq_ignore_ascii_case("wait");
        wait.then(|| value.trim().trim_matches('"').parse().ok()).flatten()
    };
    elements(headers, &PREFER).find_map(of_one)
}

/// The elements of a comma-separated header that may be given several times.
fn elements<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{PREFER, accepts, none_match, wait};
    use http::{HeaderMap, HeaderValue, header};

    const MANIFEST: &str = "application/vnd.margo.manifest.v1+json";

    fn with(name: header::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn accepts_usual_accept_headers() {
        // DS-12, W-09
        for value in [
            MANIFEST,
            "*/*",
            "application/*",
            "text/html, */*;q=0.1",
            "Application/Vnd.Margo.Manifest.V1+JSON",
            "application/vnd.margo.manifest.v1+json; charset=utf-8",
            "application/*;q=0, application/vnd.margo.manifest.v1+json",
            "",
        ] {
            assert!(accepts(&with(header::ACCEPT, &[value]), MANIFEST), "{value}");
        }
        assert!(accepts(&HeaderMap::new(), MANIFEST));
    }

    #[test]
    fn only_other_types_are_not_acceptable() {
        for value in
            ["text/html", "application/json", "*/*;q=0", "text/*", "application/vnd.margo.manifest.v1+json;q=0, */*"]
        {
            assert!(!accepts(&with(header::ACCEPT, &[value]), MANIFEST), "{value}");
        }
    }

    #[test]
    fn every_form_of_the_same_etag_matches() {
        // DS-13, W-09
        let etag = "\"sha256:ab\"";
        for value in ["\"sha256:ab\"", "sha256:ab", "W/\"sha256:ab\"", "*", "\"other\", \"sha256:ab\""] {
            assert!(none_match(&with(header::IF_NONE_MATCH, &[value]), etag), "{value}");
        }
        assert!(none_match(&with(header::IF_NONE_MATCH, &["\"a\"", "\"sha256:ab\""]), etag));
        assert!(!none_match(&with(header::IF_NONE_MATCH, &["\"sha256:abc\"", ""]), etag));
        assert!(!none_match(&HeaderMap::new(), etag));
    }

    #[test]
    fn parses_the_wait_preference_among_others() {
        for value in
            ["wait=30", "Wait = 30", "wait=\"30\"", "respond-async, wait=30", "wait=30; foo=bar", "wait=x, wait=30"]
        {
            assert_eq!(wait(&with(PREFER, &[value])), Some(30), "{value}");
        }
        assert_eq!(wait(&with(PREFER, &["return=minimal", "wait=30"])), Some(30));
        for value in ["", "wait", "wait=", "wait=-1", "wait=soon", "waiting=30", "wait=99999999999999999999"] {
            assert_eq!(wait(&with(PREFER, &[value])), None, "{value}");
        }
        assert_eq!(wait(&HeaderMap::new()), None);
    }
}
