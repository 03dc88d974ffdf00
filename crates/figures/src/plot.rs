//! A chart as SVG text.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::{Axis, Chart, Marks, Series};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// The chart under this title.
///
/// # Errors
/// The plotting library's own words; none is known to happen.
pub(crate) fn svg(title: &str, chart: &Chart) -> Result<String, String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&root, title, chart).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

const SIZE: (u32, u32) = (900, 480);
const LEGEND_WIDTH: u32 = 200;

/// Told apart also by those who do not see all colours (Okabe and Ito 2008), black last.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(150, 150, 60),
    RGBColor(0, 0, 0),
];

fn color(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

fn draw<'a>(root: &Area<'a>, title: &str, chart: &Chart) -> Result<(), Failure<'a>> {
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 18))?;
    let (panel, legend) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let series: Vec<Vec<Point>> = chart.series.iter().map(|series| points(chart, series)).collect();
    let (xs, ys) = ranges(chart, &series);
    let mut context = ChartBuilder::on(&panel)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(xs.0..xs.1, ys.0..ys.1)?;
    let (x_label, y_label) = (|x: &f64| tick(&chart.x, *x), |y: &f64| tick(&chart.y, *y));
    let places = match chart.x.categories.len() {
        0 => 9,
        count => count + 1,
    };
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(places)
        .x_desc(&chart.x.label)
        .y_desc(&chart.y.label)
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .draw()?;
    let count = chart.series.len();
    for (index, points) in series.iter().enumerate() {
        let color = color(index);
        match chart.marks {
            Marks::Bars => {
                let width = 0.8 / count as f64;
                let left = |x: f64| x - 0.4 + width * index as f64;
                context.draw_series(points.iter().map(|point| {
                    let corners = [(left(point.x), ys.0.max(0.0)), (left(point.x) + width * 0.92, point.y)];
                    Rectangle::new(corners, color.filled())
                }))?;
            }
            Marks::Lines | Marks::Curve => {
                let line = points.iter().map(|point| (point.x, point.y));
                context.draw_series(LineSeries::new(line, color.stroke_width(2)))?;
            }
            Marks::Points => {}
        }
        if matches!(chart.marks, Marks::Lines | Marks::Points) {
            let size = if chart.marks == Marks::Points { 1 } else { 3 };
            let marks = points.iter().map(|point| Circle::new((point.x, point.y), size, color.filled()));
            context.draw_series(marks)?;
        }
        let bars = points
            .iter()
            .filter(|point| point.high > point.low)
            .map(|point| PathElement::new([(point.x, point.low), (point.x, point.high)], color));
        context.draw_series(bars)?;
    }
    for (index, series) in chart.series.iter().enumerate() {
        let top = 20 + 22 * index as i32;
        legend.draw(&Rectangle::new([(4, top), (20, top + 10)], color(index).filled()))?;
        legend.draw(&Text::new(series.name.clone(), (26, top - 2), ("sans-serif", 14)))?;
    }
    root.present()
}

/// A point in the coordinates of the drawing: logarithms where the axis is logarithmic.
struct Point {
    x: f64,
    y: f64,
    low: f64,
    high: f64,
}

fn points(chart: &Chart, series: &Series) -> Vec<Point> {
    let place = |axis: &Axis, value: f64| if axis.log { value.log10() } else { value };
    let points = series.points.iter().enumerate().map(|(index, (x, y))| {
        let error = series.errors.get(index).copied().unwrap_or(0.0);
        let around = |value: f64| {
            let value = place(&chart.y, value);
            if value.is_finite() { value } else { place(&chart.y, *y) }
        };
        Point {
            x: place(&chart.x, *x),
            y: place(&chart.y, *y),
            low: around(y - error),
            high: around(y + error),
        }
    });
    points.filter(|point| point.x.is_finite() && point.y.is_finite()).collect()
}

/// The ranges of both axes, a little wider than the points; linear ones begin at 0.
fn ranges(chart: &Chart, series: &[Vec<Point>]) -> ((f64, f64), (f64, f64)) {
    let all = || series.iter().flatten();
    let range = |axis: &Axis, low: f64, high: f64| {
        if !axis.categories.is_empty() {
            return (-0.5, axis.categories.len() as f64 - 0.5);
        }
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        if axis.log {
            return (low - 0.1, high + 0.1);
        }
        let low = low.min(0.0);
        (low, if high > low { high + (high - low) * 0.04 } else { low + 1.0 })
    };
    let low_x = all().map(|point| point.x).fold(f64::INFINITY, f64::min);
    let high_x = all().map(|point| point.x).fold(f64::NEG_INFINITY, f64::max);
    let low_y = all().map(|point| point.low).fold(f64::INFINITY, f64::min);
    let high_y = all().map(|point| point.high).fold(f64::NEG_INFINITY, f64::max);
    (range(&chart.x, low_x, high_x), range(&chart.y, low_y, high_y))
}

fn tick(axis: &Axis, at: f64) -> String {
    if !axis.categories.is_empty() {
        let index = at.round();
        let near = (at - index).abs() < 1e-6 && index >= 0.0;
        return axis.categories.get(index as usize).filter(|_| near).cloned().unwrap_or_default();
    }
    number(if axis.log { 10f64.powf(at) } else { at })
}

/// Three digits, without the zeros that say nothing.
fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        return format!("{:.3e}", value);
    }
    let digits = match size {
        0.0..1e-9 => return "0".into(),
        _ => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let short = [0.0, 1234.0, 0.25, 2.5, 0.001234, 12.0].map(number);
        assert_eq!(short, ["0", "1234", "0.25", "2.5", "0.00123", "12"]);
    }

    #[test]
    fn every_kind_of_chart_is_drawn() {
        for marks in [Marks::Lines, Marks::Curve, Marks::Points, Marks::Bars] {
            for x in [Axis::linear("x"), Axis::log("x"), Axis::names("x", ["first", "second"])] {
                let points = vec![(1.0, 1.0), (0.0, 3.0)];
                let chart = Chart {
                    name: String::new(),
                    x,
                    y: Axis::linear("y (s)"),
                    marks,
                    series: vec![Series::new("a", points), Series::new("empty", vec![])],
                };
                let svg = svg("Title", &chart).unwrap();
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
                assert!(svg.contains("Title") && svg.contains("y (s)") && svg.contains("empty"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"));
            }
        }
    }
}
