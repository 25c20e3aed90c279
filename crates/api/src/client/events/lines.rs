//! Parses the lines of `text/event-stream` into frames.

/// Longest frame accepted; an event is a few kilobytes at most.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// The lines between two empty lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: Option<i64>,
    pub(super) event: Option<String>,
    pub(super) data: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    rest: Vec<u8>,
    frame: Frame,
}

impl Frames {
    /// Frames completed by this chunk; the rest is kept for the next one. Fails when a frame is too long.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Frame>, ()> {
        self.rest.extend_from_slice(chunk);
        let mut whole = Vec::new();
        let mut start = 0;
        while let Some(length) = self.rest[start..].iter().position(|byte| *byte == b'\n') {
            let line = &self.rest[start..start + length];
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
            start += length + 1;
            if line.is_empty() {
                whole.push(std::mem::take(&mut self.frame));
            } else {
                self.line(&line);
            }
        }
        self.rest.drain(..start);
        let held = self.rest.len() + self.frame.data.as_ref().map_or(0, String::len);
        if held > FRAME_BYTES_MAX { Err(()) } else { Ok(whole) }
    }

    fn line(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = value.parse().ok().or(self.frame.id),
            "event" => self.frame.event = Some(value.to_owned()),
            "data" => match &mut self.frame.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.frame.data = Some(value.to_owned()),
            },
            // A comment (nothing before the colon), `retry`, or an unknown field.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAME_BYTES_MAX, Frame, Frames};

    fn frame(id: Option<i64>, event: Option<&str>, data: Option<&str>) -> Frame {
        Frame { id, event: event.map(str::to_owned), data: data.map(str::to_owned) }
    }

    #[test]
    fn returns_whole_frames_for_any_chunking() {
        let text =
            "retry: 1000\n: hello\nid: 4\n\nid: 5\ndata: {\"a\":\ndata: 1}\n\nevent: gap\r\ndata:x\r\n\r\nid: 6\nda";
        let expected = [
            frame(Some(4), None, None),
            frame(Some(5), None, Some("{\"a\":\n1}")),
            frame(None, Some("gap"), Some("x")),
        ];
        for size in [1, 3, 1000] {
            let mut frames = Frames::default();
            let got: Vec<Frame> = text.as_bytes().chunks(size).flat_map(|chunk| frames.push(chunk).unwrap()).collect();
            assert_eq!(got, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn rejects_a_frame_without_an_end() {
        let mut frames = Frames::default();
        assert!(frames.push(&vec![b'x'; FRAME_BYTES_MAX]).is_ok());
        assert!(frames.push(b"xx").is_err());
    }
}
