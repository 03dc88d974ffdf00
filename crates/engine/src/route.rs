use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use laxity_graph::{EventTime, OperatorId, ProcessingTime};
use laxity_operators::{HashPartitioner, LateColumn, LateRows, OperatorError, StreamBatch};
use laxity_sched::{Message, Stamps};

use crate::instance::message;
use crate::payload::Payload;
use crate::sink_io::SinkHandle;

/// Where the output of one instance goes along one edge.
pub(crate) enum Route {
    /// To the instances of another operator.
    Operator {
        targets: Vec<OperatorId>,
        /// The channel by which each of them hears this instance.
        channel: u32,
        spread: Spread,
    },
    /// Out of the engine.
    Sink(Arc<SinkHandle>),
}

/// Which target gets which rows.
pub(crate) enum Spread {
    All,
    Hash(HashPartitioner),
    RoundRobin { next: usize },
}

impl Route {
    pub(crate) fn batch(
        &mut self,
        batch: StreamBatch,
        stamps: Stamps,
        window_end: Option<EventTime>,
        progress: EventTime,
        now: ProcessingTime,
        staged: &mut Vec<Message<Payload>>,
    ) -> Result<(), OperatorError> {
        match self {
            Route::Sink(sink) => sink.write(batch.rows, stamps, window_end, now),
            Route::Operator { targets, channel, spread } => {
                let mut send = |to: OperatorId, batch: StreamBatch| {
                    let payload =
                        Payload { batch: Some(batch), watermark: None, idle: false, stamps, window_end };
                    staged.push(message(to, *channel, progress, payload));
                };
                match spread {
                    Spread::All => send(targets[0], batch),
                    Spread::RoundRobin { next } => {
                        send(targets[*next], batch);
                        *next = (*next + 1) % targets.len();
                    }
                    Spread::Hash(partitioner) => {
                        for (part, &to) in partitioner.split(&batch)?.into_iter().zip(targets.iter()) {
                            if let Some(part) = part {
                                send(to, part);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells every target of the watermark: with the rows just staged for it, else by a message of its own.
    pub(crate) fn watermark(
        &mut self,
        watermark: EventTime,
        stamps: Stamps,
        staged: &mut Vec<Message<Payload>>,
        staged_from: usize,
    ) {
        match self {
            Route::Sink(sink) => sink.watermark(watermark),
            Route::Operator { targets, channel, .. } => {
                for &to in targets.iter() {
                    let with_rows = staged[staged_from..]
                        .iter_mut()
                        .rev()
                        .find(|message| message.to == to && message.channel == *channel);
                    if let Some(message) = with_rows {
                        message.body.watermark = Some(watermark);
                        message.progress = watermark;
                        continue;
                    }
                    let payload = Payload {
                        batch: None,
                        watermark: Some(watermark),
                        idle: false,
                        stamps,
                        window_end: None,
                    };
                    staged.push(message(to, *channel, watermark, payload));
                }
            }
        }
    }

    /// Tells every target that this channel holds nothing back for now.
    pub(crate) fn idle(&mut self, stamps: Stamps, progress: EventTime, staged: &mut Vec<Message<Payload>>) {
        if let Route::Operator { targets, channel, .. } = self {
            for &to in targets.iter() {
                let payload = Payload { batch: None, watermark: None, idle: true, stamps, window_end: None };
                staged.push(message(to, *channel, progress, payload));
            }
        }
    }
}

/// Where rows go that came too late for their window.
pub(crate) struct LateRoute {
    pub sink: Arc<SinkHandle>,
    pub columns: Vec<LateColumn>,
}

impl LateRoute {
    pub(crate) fn send(
        &mut self,
        late: &LateRows,
        stamps: Stamps,
        now: ProcessingTime,
    ) -> Result<(), OperatorError> {
        let schema = &self.sink.schema;
        let internal = |error: arrow::error::ArrowError| OperatorError::Internal {
            operator: "late rows".into(),
            message: error.to_string(),
        };
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| {
                let values: ArrayRef = match *column {
                    LateColumn::Input(index) => late.rows.column(index).clone(),
                    LateColumn::WindowEnd => Arc::new(
                        late.window_end
                            .clone()
                            .reinterpret_cast::<arrow::datatypes::TimestampMillisecondType>(),
                    ),
                };
                arrow::compute::cast(&values, field.data_type())
            })
            .collect::<Result<_, _>>()
            .map_err(internal)?;
        let rows = RecordBatch::try_new(schema.clone(), columns).map_err(internal)?;
        self.sink.write_late(rows, stamps, now);
        Ok(())
    }
}
