use laxity_sched::{By, Cycled, Needs, Rank, Reads, Scale, Snapshot, WaitBound};

/// `qs`: the operator with most rows in its queue goes first.
///
/// EdgeWise (Fu et al., USENIX ATC 2019, §5): even queues keep a pipeline's parts busy and its memory flat.
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | queue length | [`laxity_sched::OperatorSnapshot::queued_rows`], each message as one row more | rows |
///
/// Here the length is what it is at every pick ([`By::Queue`]); EdgeWise scans all operators for that,
/// and Haren and Lachesis take it from a snapshot of their last period: `haren:qs@50ms`. EdgeWise counts
/// batches, Haren tuples; rows here, because batches differ in size, and a message as a row more, because a
/// watermark alone must not stay behind for ever. A query is as urgent as the longest queue in it.
///
/// Does badly where rows differ in urgency: a short queue of urgent rows waits for every long one. It
/// starves, hence the ageing guard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Qs;

impl Rank for Qs {
    fn needs(&self) -> Needs {
        let reads = Reads { queues: true, ..Reads::NOTHING };
        Needs { by: By::Queue, scale: Scale::Linear, reads, ..Needs::by_message(WaitBound::Ageing) }
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        priorities.fill(0.0);
        for operator in &snapshot.operators {
            let length = operator.queued_rows + operator.queued_messages as u64;
            let priority = &mut priorities[operator.unit as usize];
            *priority = priority.min(-(length as f64));
        }
        Cycled::ALL
    }
}
