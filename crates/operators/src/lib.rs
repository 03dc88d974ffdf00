//! Streaming operators: one Arrow batch in, batches out.
//!
//! Pure: an operator sees batches, watermarks and the instants they were ingested at, as arguments. It
//! knows no clock, thread, file or socket, and never decides when it runs. Start with [`Operator`].

pub mod approximate;
mod calc;
mod chain;
mod chunked;
mod current_watermark;
#[cfg(test)]
mod drive;
mod expression;
mod failing_rows;
mod float_comparison;
mod groups;
mod interval_join;
mod join_keys;
mod join_kind;
mod join_output;
mod join_side;
mod lookup_join;
mod operator;
mod over;
mod partition;
mod restart;
mod row_index;
mod row_store;
mod row_times;
mod session;
mod session_expand;
mod shared_source;
mod slices;
mod sort;
mod source;
mod stage;
mod state;
mod template;
mod union;
mod unnest;
mod watermark;
mod window;
mod window_aggregate;
mod window_expand;
mod window_join;
mod window_rank;
mod window_rows;

pub use calc::{Calc, CalcSpec};
pub use chain::Chain;
pub use current_watermark::{CurrentWatermarkSpec, KeepWatermarks};
pub use expression::ExpressionFault;
pub use failing_rows::FailingRows;
pub use float_comparison::FloatComparison;
pub use groups::AggregateCall;
pub use interval_join::{IntervalJoinInput, IntervalJoinSpec};
pub use join_kind::JoinKind;
pub use lookup_join::{LookupJoinSpec, LookupRows, LookupTable};
pub use operator::{
    DeadReason, DeadRows, Emitted, Flow, LateColumn, LateRows, Operator, OperatorError, Outbox, StreamBatch,
};
pub use over::{OverAggregateSpec, OverFrame};
pub use partition::HashPartitioner;
pub use row_index::Access;
pub use session_expand::SessionExpandSpec;
pub use shared_source::{FilledRows, Gets, SharedSource, SharedSourceSpec, ViewSpec, Way, Ways};
pub use sort::SortSpec;
pub use source::{SourceColumn, SourceOperator, SourceSpec};
pub use stage::{Explain, InstanceContext, OperatorFactory, SharedStage, Stage};
pub use state::{LaterParts, OperatorState, StateError, StatePart};
pub use template::{
    ByMember, OwnConstants, SavedTemplate, Slicer, SlicerSpec, Slices, Template, Windows as WindowsState,
};
pub use union::Union;
pub use unnest::UnnestSpec;
pub use watermark::{REFUSED_MAX, WatermarkSpec};
pub use window::{WindowKind, Windows};
pub use window_aggregate::{GroupsOfSlice, WindowAggregate, WindowAggregateSpec, WindowInput};
pub use window_expand::WindowExpandSpec;
pub use window_join::{WindowJoinInput, WindowJoinSpec};
pub use window_rank::{RankOrder, RankTies, WindowRankSpec};
