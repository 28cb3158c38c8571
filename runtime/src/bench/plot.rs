//! SVG plots of a record: speedup by budget, acceptance by depth, shares of the stages.

use super::BenchError;
use super::record::Record;
use super::summary::Row;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt::Display;

const SIZE: (u32, u32) = (860, 480);
const TEXT: (&str, u32) = ("sans-serif", 14);
const TITLE: (&str, u32) = ("sans-serif", 20);
/// Colours that colour-blind people tell apart (Okabe and Ito), in the order of series.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(240, 228, 66),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Line = (String, Vec<(f64, f64)>);

/// A plot: its file name and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Name for the file.
    pub name: String,
    /// The SVG document.
    pub svg: String,
}

/// Three plots for every temperature, of the means over suites.
///
/// # Errors
/// The library refuses.
pub fn plots(record: &Record) -> Result<Vec<Plot>, BenchError> {
    let mut temperatures: Vec<f32> = Vec::new();
    for cell in &record.cells {
        if !temperatures.contains(&cell.temperature) {
            temperatures.push(cell.temperature);
        }
    }
    let mut plots = Vec::new();
    for t in temperatures {
        let rows: Vec<&Row> = record
            .summary
            .iter()
            .filter(|r| r.suite.is_none() && record.cells[r.cell].temperature == t)
            .collect();
        let mut add = |name: &'static str, draw: &dyn Fn(&Area<'_>) -> Result<(), String>| {
            let svg = svg(draw).map_err(|reason| BenchError::Plot { name, reason })?;
            plots.push(Plot {
                name: format!("{name}-t{t}.svg"),
                svg,
            });
            Ok::<(), BenchError>(())
        };
        add("speedup", &|area| speedup(area, record, &rows, t))?;
        add("acceptance", &|area| acceptance(area, record, &rows, t))?;
        add("stages", &|area| stages(area, record, &rows, t))?;
    }
    Ok(plots)
}

fn svg(draw: &dyn Fn(&Area<'_>) -> Result<(), String>) -> Result<String, String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(said)?;
        draw(&area)?;
        area.present().map_err(said)?;
    }
    Ok(text)
}

fn said(error: impl Display) -> String {
    error.to_string()
}

/// Budgets on a logarithmic axis; a method with one budget is a single mark.
fn speedup(area: &Area<'_>, record: &Record, rows: &[&Row], t: f32) -> Result<(), String> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let cell = &record.cells[row.cell];
        if cell.is_plain() {
            continue;
        }
        let point = (cell.budget as f64, row.speedup);
        match lines.iter_mut().find(|(name, _)| *name == cell.method) {
            Some((_, points)) => points.push(point),
            None => lines.push((cell.method.clone(), vec![point])),
        }
    }
    for (_, points) in &mut lines {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let budgets = lines.iter().flat_map(|(_, p)| p).map(|p| p.0);
    let (low, high) = budgets.fold((f64::MAX, 1.0_f64), |(a, b), x| (a.min(x), b.max(x)));
    let low = low.min(high);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Speedup over plain, mean of suites, T = {t}"), TITLE)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d((low / 1.2..high * 1.2).log_scale(), 0.0..above(&lines))
        .map_err(said)?;
    chart
        .configure_mesh()
        .x_desc("budget (nodes)")
        .y_desc("speedup")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .light_line_style(WHITE)
        .label_style(TEXT)
        .draw()
        .map_err(said)?;
    for (i, (name, points)) in lines.into_iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let marks = points.iter().map(|p| Circle::new(*p, 4, colour.filled()));
        chart.draw_series(marks).map_err(said)?;
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))
            .map_err(said)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
    }
    legend!(chart)
}

fn acceptance(area: &Area<'_>, record: &Record, rows: &[&Row], t: f32) -> Result<(), String> {
    let drawn: Vec<&&Row> = rows.iter().filter(|r| !r.acceptance.is_empty()).collect();
    let depth = drawn.iter().map(|r| r.acceptance.len()).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("Rounds that accept a draft at each depth, T = {t}"),
            TITLE,
        )
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d(1.0..(depth.max(2) as f64), 0.0..1.0)
        .map_err(said)?;
    chart
        .configure_mesh()
        .x_desc("depth")
        .y_desc("share of rounds")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .light_line_style(WHITE)
        .label_style(TEXT)
        .draw()
        .map_err(said)?;
    for (i, row) in drawn.into_iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let cell = &record.cells[row.cell];
        let points = row.acceptance.iter().zip(1..).map(|(y, d)| (f64::from(d), *y));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))
            .map_err(said)?
            .label(format!("{} {}", cell.method, cell.budget))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
    }
    legend!(chart)
}

/// One bar for each cell, from the bottom in the order of a round.
fn stages(area: &Area<'_>, record: &Record, rows: &[&Row], t: f32) -> Result<(), String> {
    let count = rows.len().max(1);
    let names: Vec<String> = rows
        .iter()
        .map(|r| format!("{} {}", record.cells[r.cell].method, record.cells[r.cell].budget))
        .collect();
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Shares of the stages of a round, T = {t}"), TITLE)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d(0.0..count as f64 * 1.18, 0.0..100.0)
        .map_err(said)?;
    let name = |x: &f64| {
        let middle = (x.fract() - 0.5).abs() < 0.01;
        let name = names.get(x.floor() as usize).filter(|_| middle);
        name.cloned().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .y_desc("%")
        .disable_x_mesh()
        .x_labels(3 * count + 1)
        .x_label_formatter(&name)
        .y_label_formatter(&|y| format!("{y:.0}"))
        .light_line_style(WHITE)
        .label_style(TEXT)
        .draw()
        .map_err(said)?;
    let stages = ["draft", "tree", "verify", "walk", "commit"];
    let mut below = vec![0.0; rows.len()];
    for (i, stage) in stages.iter().enumerate() {
        let colour = COLOURS[i];
        let bars = rows.iter().enumerate().map(|(at, row)| {
            let s = row.shares;
            let share = 100.0 * [s.draft, s.tree, s.verify, s.walk, s.commit][i];
            let (bottom, top) = (below[at], below[at] + share);
            below[at] = top;
            let left = at as f64;
            Rectangle::new([(left + 0.15, bottom), (left + 0.85, top)], colour.filled())
        });
        let bars: Vec<_> = bars.collect();
        chart
            .draw_series(bars)
            .map_err(said)?
            .label(*stage)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 20, y + 5)], colour.filled()));
    }
    legend!(chart)
}

/// A round number above all points.
fn above(lines: &[Line]) -> f64 {
    let highest = lines.iter().flat_map(|(_, p)| p).map(|p| p.1);
    (highest.fold(1.0, f64::max) * 1.15).ceil()
}

/// Draws the legend of a chart; a macro, since the types of charts differ by their axes.
macro_rules! legend {
    ($chart:expr) => {
        $chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(TEXT)
            .draw()
            .map_err(said)
    };
}
use legend;
