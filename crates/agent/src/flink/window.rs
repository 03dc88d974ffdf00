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
    // With an offset that cannot be read, nobody knows when they end.
    let start_ms = match arguments.split_once("offset=[").map(|(_, offset)| offset.split(']').next()) {
        None => Some(0),
        Some(offset) => offset.and_then(signed_ms),
    };
    let end_ms = start_ms.filter(|_| slide != "gap").and_then(|start_ms| start_ms.checked_add(size_ms));
    Some(WindowShape { size_ms, slide_ms, end_ms })
}

/// `1 s`, `10 min`: as Flink's plans write durations, of which the least is a millisecond.
fn duration_ms(text: &str) -> Option<i64> {
    i64::try_from(laxity_text::parse_duration(text).ok()?.as_millis()).ok().filter(|&ms| ms > 0)
}

fn signed_ms(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(text) => duration_ms(text).map(|ms| -ms),
        None => duration_ms(text),
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::EventTime;

    use super::*;

    fn check(window: &str, expect: Option<(i64, i64, Option<i64>)>) {
        let description =
            format!("[6]:GlobalWindowAggregate(groupBy=[size], window=[{window}], select=[size])<br/>");
        let ends = |shape: WindowShape| shape.ends().and_then(|ends| ends.next(EventTime(-2)));
        let found = window_in(&description)
            .map(|shape| (shape.size_ms, shape.slide_ms, ends(shape).map(|first| first.0)));
        assert_eq!(found, expect, "{window}");
    }

    #[test]
    fn windows_as_plans_write_them() {
        check("TUMBLE(slice_end=[$slice_end], size=[1 s])", Some((1_000, 1_000, Some(0))));
        check("HOP(time_col=[seen], size=[10 min], slide=[30 s])", Some((600_000, 30_000, Some(0))));
        check("CUMULATE(win_start=[a], max_size=[1 d], step=[1 h])", Some((86_400_000, 3_600_000, Some(0))));
        check("SESSION(win_start=[a], win_end=[b], gap=[5 s])", Some((5_000, 5_000, None)));
        check(
            "TUMBLE(time_col=[t], size=[1 d], offset=[8 h])",
            Some((86_400_000, 86_400_000, Some(28_800_000))),
        );
        check(
            "TUMBLE(time_col=[t], size=[1 d], offset=[-8 h])",
            Some((86_400_000, 86_400_000, Some(57_600_000))),
        );
        check("TUMBLE(time_col=[t], size=[1 d], offset=[?])", Some((86_400_000, 86_400_000, None)));
        check("OTHER(size=[1 s])", None);
        check("TUMBLE(time_col=[t], size=[1 us])", None);
    }
}
