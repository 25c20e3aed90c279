//! The HTTP responses of the program.
//!
//! `/` is a page for people, `/healthz` the health, `/config` the configuration (one `NAME=VALUE` per line, then the
//! configuration file after an empty line), `/count` the counters; `POST /count` counts.

use crate::counter::{Counter, Counts};
use crate::settings::Settings;
use std::fmt::Write as _;
use std::net::ToSocketAddrs as _;

#[derive(Debug)]
pub(crate) struct Sample {
    settings: Settings,
    counter: Counter,
    /// The text of the configuration file, read once: a changed file needs a new container, as with most programs.
    config: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, media_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

impl Sample {
    pub(crate) fn start(settings: Settings) -> Result<Self, String> {
        let config = match &settings.config {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                Some(text.map_err(|error| format!("read SAMPLE_CONFIG {}: {error}", path.display()))?)
            }
            None => None,
        };
        let counter = Counter::open(settings.data.clone())?;
        Ok(Self { settings, counter, config })
    }

    pub(crate) fn answer(&self, method: &str, path: &str) -> Answer {
        match (method, path) {
            ("GET" | "HEAD", "/") => {
                Answer { status: "200 OK", media_type: "text/html; charset=utf-8", body: self.page() }
            }
            ("GET" | "HEAD", "/healthz") => match self.trouble() {
                None => Answer::text("200 OK", "ok\n"),
                Some(trouble) => Answer::text("503 Service Unavailable", format!("{trouble}\n")),
            },
            ("GET" | "HEAD", "/config") => Answer::text("200 OK", self.configuration()),
            ("GET" | "HEAD", "/count") => Answer::text("200 OK", counted(self.counter.counts())),
            ("POST", "/count") => match self.counter.count() {
                Ok(counts) => Answer::text("200 OK", counted(counts)),
                Err(problem) => Answer::text("500 Internal Server Error", format!("{problem}\n")),
            },
            (_, "/" | "/healthz" | "/config" | "/count") => Answer::text("405 Method Not Allowed", "not allowed\n"),
            _ => Answer::text("404 Not Found", "there is /, /healthz, /config and /count\n"),
        }
    }

    /// Why it is unhealthy.
    fn trouble(&self) -> Option<String> {
        if self.settings.unhealthy {
            return Some("unhealthy by configuration (SAMPLE_UNHEALTHY)".to_owned());
        }
        let upstream = self.settings.upstream.as_ref()?;
        let asked = upstream.to_socket_addrs().and_then(|mut addresses| {
            let address = addresses.next().ok_or_else(|| std::io::Error::other("no address"))?;
            crate::get(&address, "/healthz")
        });
        match asked {
            Ok(status) if status.split_whitespace().nth(1) == Some("200") => None,
            Ok(status) => Some(format!("{upstream} responds with {status}")),
            Err(error) => Some(format!("{upstream}: {error}")),
        }
    }

    fn configuration(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.settings.shown {
            let _ = writeln!(text, "{name}={value}");
        }
        if let Some(config) = &self.config {
            let _ = write!(text, "\n{config}");
        }
        text
    }

    fn page(&self) -> String {
        let Settings { name, version, shown, .. } = &self.settings;
        let mut rows = String::new();
        for (name, value) in shown {
            let _ = write!(rows, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
        }
        let config = self.config.as_ref().map(|text| format!("<pre>{}</pre>", escape(text))).unwrap_or_default();
        let Counts { starts, parts } = self.counter.counts();
        let health = self.trouble().map_or("well".to_owned(), |trouble| escape(&trouble));
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
             <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}}\
             th{{text-align:left;padding-right:2rem;font-weight:normal;color:#555}}pre{{background:#f3f3f3;padding:1rem}}</style>\
             <h1>{title} <small>{version}</small></h1><p>It is {health}.</p>\
             <table><tr><th>parts</th><td>{parts}</td></tr><tr><th>starts</th><td>{starts}</td></tr>{rows}</table>{config}\
             <form method=\"post\" action=\"/count\"><button>Count a part</button></form></html>\n",
            title = escape(name),
            version = escape(version),
        )
    }
}

fn counted(Counts { starts, parts }: Counts) -> String {
    format!("starts={starts}\nparts={parts}\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pairs: &[(&str, &str)]) -> Sample {
        let settings = Settings::from(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()));
        Sample::start(settings.expect("valid settings")).expect("starts")
    }

    #[test]
    fn shows_its_configuration_escaped() {
        let sample = sample(&[("SAMPLE_NAME", "Line"), ("SAMPLE_SHOW", "LINE_NAME"), ("LINE_NAME", "<Press> & 7")]);
        assert_eq!(sample.answer("GET", "/config").body, "LINE_NAME=<Press> & 7\n");
        assert!(sample.answer("GET", "/").body.contains("&lt;Press&gt; &amp; 7"));
    }

    #[test]
    fn counts_on_request() {
        let sample = sample(&[]);
        assert_eq!(sample.answer("POST", "/count").body, "starts=1\nparts=1\n");
        assert_eq!(sample.answer("GET", "/count").body, "starts=1\nparts=1\n");
        assert_eq!(sample.answer("DELETE", "/count").status, "405 Method Not Allowed");
        assert_eq!(sample.answer("GET", "/nothing").status, "404 Not Found");
    }

    #[test]
    fn is_unhealthy_on_request_or_without_its_upstream() {
        assert_eq!(sample(&[]).answer("GET", "/healthz").status, "200 OK");
        let failing = sample(&[("SAMPLE_UNHEALTHY", "1")]);
        assert_eq!(failing.answer("GET", "/healthz").status, "503 Service Unavailable");
        let alone = sample(&[("SAMPLE_UPSTREAM", "127.0.0.1:1")]);
        assert!(alone.answer("GET", "/healthz").body.contains("127.0.0.1:1"));
    }
}
