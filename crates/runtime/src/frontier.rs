//! How far event time has come at an instance that hears several others.

use laxity_graph::EventTime;

/// The watermark of an operator instance: the minimum over its input channels, leaving out idle ones.
///
/// Invariant: `combined` never falls. An idle channel that speaks again may bring rows behind it; the
/// late-data rule judges them by their own `watermark_before`.
#[derive(Debug)]
pub struct Frontier {
    channels: Vec<Channel>,
    combined: EventTime,
}

/// A frontier as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FrontierState {
    /// By channel: its watermark, event-time ms, and whether it is idle.
    pub channels: Vec<(i64, bool)>,
    /// The minimum that was reached, event-time ms.
    pub combined_ms: i64,
}

#[derive(Debug, Clone, Copy)]
struct Channel {
    watermark: EventTime,
    idle: bool,
}

impl Frontier {
    /// Of so many channels, of which none has spoken yet.
    pub fn new(channels: usize) -> Frontier {
        Frontier {
            channels: vec![Channel { watermark: EventTime::MIN, idle: false }; channels],
            combined: EventTime::MIN,
        }
    }

    /// As it is, to be kept.
    pub fn save(&self) -> FrontierState {
        FrontierState {
            channels: self.channels.iter().map(|channel| (channel.watermark.0, channel.idle)).collect(),
            combined_ms: self.combined.0,
        }
    }

    /// As it was; `None` if that had another number of channels.
    pub fn restored(&self, state: &FrontierState) -> Option<Frontier> {
        let channel = |&(watermark, idle): &(i64, bool)| Channel { watermark: EventTime(watermark), idle };
        (self.channels.len() == state.channels.len()).then(|| Frontier {
            channels: state.channels.iter().map(channel).collect(),
            combined: EventTime(state.combined_ms),
        })
    }

    /// Takes a channel's watermark; the new minimum if it rose.
    pub fn on_watermark(&mut self, channel: usize, watermark: EventTime) -> Option<EventTime> {
        let state = &mut self.channels[channel];
        state.idle = false;
        state.watermark = state.watermark.max(watermark);
        self.advance()
    }

    /// The channel has rows again.
    pub fn on_active(&mut self, channel: usize) {
        self.channels[channel].idle = false;
    }

    /// The channel holds nothing back until it speaks again; the new minimum if that rose.
    pub fn on_idle(&mut self, channel: usize) -> Option<EventTime> {
        self.channels[channel].idle = true;
        self.advance()
    }

    /// True if no channel is active: the instance is then idle for those it feeds.
    pub fn all_idle(&self) -> bool {
        self.channels.iter().all(|channel| channel.idle)
    }

    fn advance(&mut self) -> Option<EventTime> {
        // All idle: nothing is known that was not known before, so the frontier stays.
        let minimum = self.channels.iter().filter(|channel| !channel.idle).map(|c| c.watermark).min()?;
        (minimum > self.combined).then(|| {
            self.combined = minimum;
            minimum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_over_channels_only_rises() {
        let mut frontier = Frontier::new(2);
        assert_eq!(frontier.on_watermark(0, EventTime(10)), None);
        assert_eq!(frontier.on_watermark(1, EventTime(4)), Some(EventTime(4)));
        assert_eq!(frontier.on_watermark(1, EventTime(3)), None);
        assert_eq!(frontier.on_watermark(1, EventTime(12)), Some(EventTime(10)));
        assert_eq!(frontier.combined, EventTime(10));
    }

    #[test]
    fn idle_channels_hold_nothing_back_until_they_speak() {
        let mut frontier = Frontier::new(2);
        frontier.on_watermark(0, EventTime(10));
        assert_eq!(frontier.on_idle(1), Some(EventTime(10)));
        assert!(!frontier.all_idle());
        // Channel 1 speaks again, behind the frontier: the frontier stays, and now waits for channel 1.
        assert_eq!(frontier.on_watermark(1, EventTime(5)), None);
        assert_eq!(frontier.on_watermark(0, EventTime(20)), None);
        assert_eq!(frontier.on_watermark(1, EventTime(15)), Some(EventTime(15)));
        frontier.on_idle(0);
        assert_eq!(frontier.on_idle(1), None);
        assert!(frontier.all_idle());
    }

    #[test]
    fn ends_when_every_channel_has_ended() {
        let mut frontier = Frontier::new(2);
        assert_eq!(frontier.on_watermark(0, EventTime::MAX), None);
        assert_eq!(frontier.on_watermark(1, EventTime::MAX), Some(EventTime::MAX));
    }
}
