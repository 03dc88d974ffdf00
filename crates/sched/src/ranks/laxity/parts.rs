use crate::{Fault, Parameters};

/// Which parts are at work: all, unless one is switched off to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub forecasts: bool,
    pub short: bool,
    pub backlog: bool,
    pub ease: bool,
    pub press: bool,
    pub finish: bool,
    pub overload: bool,
    pub rates: bool,
    pub memory: bool,
}

impl Parts {
    pub const ALL: Parts = Parts {
        forecasts: true,
        short: true,
        backlog: true,
        ease: true,
        press: true,
        finish: true,
        overload: true,
        rates: true,
        memory: true,
    };

    fn named(&mut self) -> [(&'static str, &mut bool); 9] {
        [
            ("forecasts", &mut self.forecasts),
            ("short", &mut self.short),
            ("backlog", &mut self.backlog),
            ("ease", &mut self.ease),
            ("press", &mut self.press),
            ("finish", &mut self.finish),
            ("overload", &mut self.overload),
            ("rates", &mut self.rates),
            ("memory", &mut self.memory),
        ]
    }

    /// `overload=off`, as often as wanted; and how the rank is written then.
    pub fn read(parameters: &mut Parameters<'_>) -> Result<(Parts, String), Fault> {
        let (mut parts, mut label) = (Parts::ALL, "laxity".to_owned());
        for (name, is_on) in parts.named() {
            match parameters.named(name) {
                None => {}
                Some("off") => {
                    *is_on = false;
                    label.push_str(&format!(":{name}=off"));
                }
                Some(other) => return Err(parameters.refuse(&format!("{name}={other}"))),
            }
        }
        Ok((parts, label))
    }
}
