use laxity_graph::WindowShape;

/// The window in a plan node's description: `window=[HOP(time_col=[t], size=[10 s], slide=[5 s])]`.
pub(super) fn window_in(description: &str) -> Option<WindowShape> {
    let kinds = [("TUMBLE(", "size"), ("HOP(", "slide"), ("CUMULATE(", "step"), ("SESSION(", "gap")];
    let (arguments, slide) = kinds.into_iter().find_map(|(kind, slide)| {
        let at = description.find(&format!("window=[{kind}"))?;
        Some((&description[at..], slide))
    })?;
    let argument = |name: &str| duration_ms(arguments.split_once(&format!("{name}=["))?.1.split(']').next()?);
    let slide_ms = argument(slide)?;
    let size_ms = argument("max_size").or_else(|| argument("size")).unwrap_or(slide_ms);
    Some(WindowShape { size_ms, slide_ms, is_aligned: slide != "gap" && !arguments.contains("offset=[") })
}

/// `1 s`, `10 min`: as Flink's plans write durations, of which the least is a millisecond.
fn duration_ms(text: &str) -> Option<i64> {
    i64::try_from(laxity_text::parse_duration(text).ok()?.as_millis()).ok().filter(|&ms| ms > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(window: &str, expect: Option<(i64, i64, bool)>) {
        let description =
            format!("[6]:GlobalWindowAggregate(groupBy=[size], window=[{window}], select=[size])<br/>");
        let found = window_in(&description).map(|shape| (shape.size_ms, shape.slide_ms, shape.is_aligned));
        assert_eq!(found, expect, "{window}");
    }

    #[test]
    fn windows_as_plans_write_them() {
        check("TUMBLE(slice_end=[$slice_end], size=[1 s])", Some((1_000, 1_000, true)));
        check("HOP(time_col=[seen], size=[10 min], slide=[30 s])", Some((600_000, 30_000, true)));
        check("CUMULATE(win_start=[a], max_size=[1 d], step=[1 h])", Some((86_400_000, 3_600_000, true)));
        check("SESSION(win_start=[a], win_end=[b], gap=[5 s])", Some((5_000, 5_000, false)));
        check("TUMBLE(time_col=[t], size=[1 d], offset=[8 h])", Some((86_400_000, 86_400_000, false)));
        check("OTHER(size=[1 s])", None);
        check("TUMBLE(time_col=[t], size=[1 us])", None);
    }
}
