//! The messages, as the protocol buffers that travel. Of proto3, package `laxity.agent.v1`:
//!
//! ```text
//! service Exchange { rpc Tell(Report) returns (Heard); }
//! ```
//!
//! Times are told as ages and as times left, counted from when the message is sent: clocks of two machines differ by
//! more than a message takes.

/// All that one agent says at a time.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Report {
    /// Who says so.
    #[prost(string, tag = "1")]
    pub node: String,
    #[prost(message, repeated, tag = "2")]
    pub queries: Vec<QueryReport>,
}

/// The answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Heard {
    /// Who heard it.
    #[prost(string, tag = "1")]
    pub node: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct QueryReport {
    /// Its key.
    #[prost(string, tag = "1")]
    pub query: String,
    /// Keys of operators that run on the node: who has one next to them is a neighbour.
    #[prost(string, repeated, tag = "2")]
    pub operators: Vec<String>,
    /// To nodes behind only.
    #[prost(message, repeated, tag = "3")]
    pub streams: Vec<Stream>,
    /// To nodes before only.
    #[prost(message, repeated, tag = "4")]
    pub costs: Vec<OperatorCost>,
}

/// When the sweeping watermark of one windowed operator is due ([`laxity_sched::StreamReport`]).
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Stream {
    /// The operator that closes the window.
    #[prost(string, tag = "1")]
    pub operator: String,
    /// The window's end, ms since 1970.
    #[prost(sint64, tag = "2")]
    pub end_ms: i64,
    /// When it is due; before the message was sent: negative.
    #[prost(double, tag = "3")]
    pub due_in_ns: f64,
    #[prost(double, tag = "4")]
    pub deviation_ns: f64,
    #[prost(double, tag = "5")]
    pub ns_per_ms: f64,
    /// What it was learned from.
    #[prost(uint32, tag = "6")]
    pub epochs: u32,
    #[prost(uint64, tag = "7")]
    pub age_ns: u64,
}

/// What one operator costs.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OperatorCost {
    #[prost(string, tag = "1")]
    pub operator: String,
    /// CPU time per row.
    #[prost(double, optional, tag = "2")]
    pub cost_ns: Option<f64>,
    #[prost(double, optional, tag = "3")]
    pub selectivity: Option<f64>,
    #[prost(double, optional, tag = "4")]
    pub queue_rows: Option<f64>,
    #[prost(uint64, tag = "5")]
    pub age_ns: u64,
}

impl Report {
    /// As it has to read when it is sent so much later than it was made.
    pub fn delayed_by(mut self, delay_ns: u64) -> Report {
        for query in &mut self.queries {
            for stream in &mut query.streams {
                stream.age_ns = stream.age_ns.saturating_add(delay_ns);
                stream.due_in_ns -= delay_ns as f64;
            }
            for cost in &mut query.costs {
                cost.age_ns = cost.age_ns.saturating_add(delay_ns);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn what_is_sent_is_what_is_received() {
        let report = Report {
            node: "a".into(),
            queries: vec![QueryReport {
                query: "q".into(),
                operators: vec!["o".into()],
                streams: vec![Stream {
                    operator: "w".into(),
                    end_ms: -1,
                    due_in_ns: 5e8,
                    age_ns: 7,
                    ..Stream::default()
                }],
                costs: vec![OperatorCost {
                    operator: "o".into(),
                    cost_ns: Some(0.0),
                    ..OperatorCost::default()
                }],
            }],
        };
        assert_eq!(Report::decode(&report.encode_to_vec()[..]), Ok(report.clone()));
        let late = report.delayed_by(10);
        assert_eq!(
            (late.queries[0].streams[0].due_in_ns, late.queries[0].streams[0].age_ns),
            (5e8 - 10.0, 17)
        );
        assert_eq!(late.queries[0].costs[0].age_ns, 10);
    }
}
