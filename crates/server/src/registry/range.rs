//! Byte ranges: of blobs read (RFC 9110) and of uploads written (distribution specification).

use http::HeaderValue;

/// What a `Range` header asks of content with a known size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestedRange {
    Whole,
    /// First byte and number of bytes.
    Part(u64, u64),
    Unsatisfiable,
}

/// Several ranges or an unknown form mean the whole content, as RFC 9110 allows.
pub(super) fn requested_range(header: Option<&str>, size: u64) -> RequestedRange {
    let Some((first, last)) = header.and_then(|text| text.trim().strip_prefix("bytes=")?.split_once('-')) else {
        return RequestedRange::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    match (number(first), number(last)) {
        (Some(first), _) if last.is_empty() => {
            if first < size {
                RequestedRange::Part(first, size - first)
            } else {
                RequestedRange::Unsatisfiable
            }
        }
        (Some(first), Some(last)) if first <= last => {
            if first < size {
                RequestedRange::Part(first, last.min(size - 1) - first + 1)
            } else {
                RequestedRange::Unsatisfiable
            }
        }
        (None, Some(suffix)) if first.is_empty() => match suffix.min(size) {
            0 => RequestedRange::Unsatisfiable,
            length => RequestedRange::Part(size - length, length),
        },
        _ => RequestedRange::Whole,
    }
}

/// Digits only: `parse` would also accept a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// `Content-Range: <first>-<last>` of a chunk, with or without the unit that some clients write.
pub(super) fn chunk(text: &str) -> Option<(u64, u64)> {
    let text = text.trim();
    let text = text.strip_prefix("bytes").map_or(text, |rest| rest.trim_start_matches(['=', ' ']));
    let text = text.split_once('/').map_or(text, |(range, _)| range);
    let (first, last) = text.split_once('-')?;
    let (first, last) = (number(first.trim())?, number(last.trim())?);
    (first <= last).then_some((first, last))
}

/// The received range of an upload; clients expect `0-0` for nothing.
pub(super) fn received(offset: u64) -> HeaderValue {
    HeaderValue::try_from(format!("0-{}", offset.saturating_sub(1))).expect("digits and a dash are a header value")
}

#[cfg(test)]
mod tests {
    use super::{RequestedRange, chunk, received, requested_range};

    #[test]
    fn reads_every_form_of_a_range() {
        for (header, expected) in [
            (None, RequestedRange::Whole),
            (Some("bytes=0-3"), RequestedRange::Part(0, 4)),
            (Some("bytes=4-"), RequestedRange::Part(4, 6)),
            (Some("bytes=-3"), RequestedRange::Part(7, 3)),
            (Some("bytes=-30"), RequestedRange::Part(0, 10)),
            (Some("bytes=8-100"), RequestedRange::Part(8, 2)),
            (Some("bytes=10-"), RequestedRange::Unsatisfiable),
            (Some("bytes=10-12"), RequestedRange::Unsatisfiable),
            (Some("bytes=-0"), RequestedRange::Unsatisfiable),
            (Some("bytes=3-2"), RequestedRange::Whole),
            (Some("bytes=0-1,3-4"), RequestedRange::Whole),
            (Some("bytes=-"), RequestedRange::Whole),
            (Some("bytes=+1-2"), RequestedRange::Whole),
            (Some("items=0-3"), RequestedRange::Whole),
        ] {
            assert_eq!(requested_range(header, 10), expected, "{header:?}");
        }
        assert_eq!(requested_range(Some("bytes=0-"), 0), RequestedRange::Unsatisfiable);
    }

    #[test]
    fn reads_the_range_of_a_chunk() {
        assert_eq!(chunk("0-9"), Some((0, 9)));
        assert_eq!(chunk("bytes 5-9/20"), Some((5, 9)));
        assert_eq!(chunk("bytes=5-9"), Some((5, 9)));
        for bad in ["", "-", "5", "9-5", "a-b", "-5", "5-", "+1-2"] {
            assert_eq!(chunk(bad), None, "{bad}");
        }
        assert_eq!(received(0), "0-0");
        assert_eq!(received(10), "0-9");
    }
}
