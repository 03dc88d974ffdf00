//! Seven cells with rates of their own: where a scheduler was seen to be better, and where to be worse, than a thread
//! for each operator.

use super::cell::{Cell, Ends, Heavy, Input, Tables, Urgent};

/// The cells, in the order in which they were first measured.
pub fn cells() -> Vec<Cell> {
    let urgent = |queries, rows_per_s, window_ms| Urgent {
        queries,
        tables: Tables::Own,
        window_ms,
        ends: Ends::Together,
        target_ms: 50,
        rows_per_s,
        input: Input::Generated,
    };
    let heavy =
        |queries, rows_per_s| Heavy { queries, tables: Tables::Own, rows_per_s, input: Input::Generated };
    let cell = |name: &str, urgent, heavy| Cell { name: name.into(), urgent, heavy };
    let replayed = Input::Replayed { tick_ms: 10 };
    vec![
        cell("issue-100", urgent(100, 1_000, 100), heavy(20, 50_000)),
        cell("issue-200", urgent(200, 100, 1_000), heavy(20, 100_000)),
        cell("issue-400", urgent(400, 500, 100), heavy(20, 50_000)),
        cell("issue-1000", urgent(1_000, 20, 1_000), heavy(4, 50_000)),
        cell("issue-2000", urgent(2_000, 1, 1_000), Heavy::NONE),
        cell("issue-10000", urgent(10_000, 1, 1_000), Heavy::NONE),
        cell(
            "issue-400-replayed",
            Urgent { input: replayed, ..urgent(400, 470, 100) },
            Heavy { input: replayed, ..heavy(10, 47_000) },
        ),
    ]
}
