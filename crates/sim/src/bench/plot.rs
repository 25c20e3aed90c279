//! Small plots as SVG: one dot per run with a bar at the median, or curves over a size.

use super::stats::percentile;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// File name without extension.
    pub name: String,
    pub title: String,
    pub shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Shape {
    /// Repeated runs, one line each, starting at zero.
    Runs { unit: String, series: Vec<Runs> },
    /// Values by size, on a logarithmic scale.
    Curves { size: String, unit: String, series: Vec<Curve> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    pub name: String,
    pub values: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 46.0;
const LINE: f64 = 34.0;
const CURVES_HEIGHT: f64 = 220.0;

/// Distinguishable without color vision, with labels.
const COLORS: [&str; 6] = ["#0b63a5", "#b3541e", "#3b7d3b", "#7a4fa3", "#8a6d00", "#555555"];

pub fn svg(plot: &Plot) -> String {
    match &plot.shape {
        Shape::Runs { unit, series } => runs(&plot.title, unit, series),
        Shape::Curves { size, unit, series } => curves(&plot.title, size, unit, series),
    }
}

struct Canvas(String);

impl Canvas {
    fn new(title: &str, height: f64) -> Self {
        let mut text = String::new();
        let _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n\
             <title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"12\" y=\"24\" font-size=\"14\" font-weight=\"bold\" fill=\"#222\">{0}</text>\n",
            escape(title)
        );
        Self(text)
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), color: &str, width: f64) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\" stroke-width=\"{width}\"/>"
        );
    }

    fn dot(&mut self, x: f64, y: f64, color: &str) {
        let _ =
            writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{color}\" fill-opacity=\"0.65\"/>");
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222\">{}</text>",
            escape(text)
        );
    }

    fn done(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn runs(title: &str, unit: &str, series: &[Runs]) -> String {
    let height = TOP + BOTTOM + LINE * series.len() as f64;
    let most = series.iter().flat_map(|runs| &runs.values).copied().fold(0.0, f64::max);
    let ticks = ticks(most);
    let end = ticks.last().copied().unwrap_or(1.0);
    let x = |value: f64| LEFT + value / end * (WIDTH - LEFT - RIGHT);
    let mut canvas = Canvas::new(title, height);
    for tick in ticks {
        canvas.line((x(tick), TOP - 6.0), (x(tick), height - BOTTOM), "#ddd", 1.0);
        canvas.text(x(tick), height - BOTTOM + 16.0, "middle", &number(tick));
    }
    canvas.text(x(end / 2.0), height - 10.0, "middle", unit);
    for (index, Runs { name, values }) in series.iter().enumerate() {
        let y = TOP + LINE * (index as f64 + 0.5);
        let color = COLORS[index % COLORS.len()];
        canvas.text(LEFT - 10.0, y + 4.0, "end", name);
        for value in values {
            canvas.dot(x(*value), y, color);
        }
        let median = percentile(values, 50.0);
        if median.is_finite() {
            canvas.line((x(median), y - 11.0), (x(median), y + 11.0), color, 3.0);
        }
    }
    canvas.done()
}

fn curves(title: &str, size: &str, unit: &str, series: &[Curve]) -> String {
    // Names are below the plot, one line each.
    let height = TOP + CURVES_HEIGHT + BOTTOM + 18.0 * series.len() as f64;
    let bottom = TOP + CURVES_HEIGHT;
    let all = || series.iter().flat_map(|curve| curve.points.iter().copied());
    let ticks = ticks(all().map(|(_, y)| y).fold(0.0, f64::max));
    let end = ticks.last().copied().unwrap_or(1.0);
    let mut sizes: Vec<f64> = all().map(|(x, _)| x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let (least, most) = (sizes.first().copied().unwrap_or(1.0).max(1.0), sizes.last().copied().unwrap_or(1.0));
    let span = (most / least).ln().max(f64::MIN_POSITIVE);
    let left = 80.0;
    let x = |value: f64| left + 20.0 + (value.max(1.0) / least).ln() / span * (WIDTH - left - RIGHT - 40.0);
    let y = |value: f64| bottom - value / end * CURVES_HEIGHT;
    let mut canvas = Canvas::new(title, height);
    for tick in ticks {
        canvas.line((left, y(tick)), (WIDTH - RIGHT, y(tick)), "#ddd", 1.0);
        canvas.text(left - 8.0, y(tick) + 4.0, "end", &number(tick));
    }
    for size in sizes {
        canvas.text(x(size), bottom + 16.0, "middle", &number(size));
    }
    canvas.text((left + WIDTH - RIGHT) / 2.0, bottom + 36.0, "middle", &format!("{unit}, by {size}"));
    for (index, Curve { name, points }) in series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        for pair in points.windows(2) {
            canvas.line((x(pair[0].0), y(pair[0].1)), (x(pair[1].0), y(pair[1].1)), color, 2.0);
        }
        for (size, value) in points {
            canvas.dot(x(*size), y(*value), color);
        }
        let line = bottom + 54.0 + 18.0 * index as f64;
        canvas.line((left, line - 4.0), (left + 24.0, line - 4.0), color, 3.0);
        canvas.text(left + 32.0, line, "start", name);
    }
    canvas.done()
}

/// From zero to just above `most`, in round steps.
fn ticks(most: f64) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = most / 4.0;
    let unit = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * unit).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * unit);
    (0..=(most / step).ceil() as usize).map(|index| index as f64 * step).collect()
}

/// Short: `12k`, `0.25`.
pub(super) fn number(value: f64) -> String {
    let short = |value: f64| {
        let text = format!("{value:.2}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match value {
        _ if value >= 1e6 => format!("{}M", short(value / 1e6)),
        _ if value >= 1e4 => format!("{}k", short(value / 1e3)),
        _ => short(value),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{Curve, Plot, Runs, Shape, number, svg, ticks};

    #[test]
    fn ticks_are_round_and_reach_the_largest() {
        assert_eq!(ticks(1.3), [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(ticks(40_000.0), [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]);
        assert_eq!(ticks(0.0), [0.0, 1.0]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.25, 7.0, 12_500.0, 2e6].map(number), ["0.25", "7", "12.5k", "2M"]);
    }

    #[test]
    fn every_run_is_a_dot_and_every_name_is_escaped() {
        let series = vec![Runs { name: "a<b".to_owned(), values: vec![1.0, 2.0, 3.0] }];
        let shape = Shape::Runs { unit: "polls".to_owned(), series };
        let text = svg(&Plot { name: "p".to_owned(), title: "Polls & more".to_owned(), shape });
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(text.contains("a&lt;b") && text.contains("Polls &amp; more") && text.ends_with("</svg>\n"), "{text}");
    }

    #[test]
    fn a_curve_stays_inside_its_frame() {
        let series = vec![Curve { name: "publish".to_owned(), points: vec![(1e3, 1.0), (1e4, 9.0)] }];
        let shape = Shape::Curves { size: "devices".to_owned(), unit: "s".to_owned(), series };
        let text = svg(&Plot { name: "p".to_owned(), title: "Publishing".to_owned(), shape });
        let places = text.split("cx=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        let places: Vec<f64> = places.collect();
        assert_eq!(places.len(), 2);
        assert!(places.iter().all(|x| (0.0..=640.0).contains(x)), "{places:?}");
        assert!(text.contains(">1000<") && text.contains(">10k<"), "{text}");
    }
}
