use crate::{Fault, Parameters};

/// Which parts are at work: all, unless one is switched off to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub forecasts: bool,
    pub overload: bool,
    pub memory: bool,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { forecasts: true, overload: true, memory: true }
    }
}

impl Parts {
    fn named(&mut self) -> [(&'static str, &mut bool); 3] {
        [("forecasts", &mut self.forecasts), ("overload", &mut self.overload), ("memory", &mut self.memory)]
    }

    /// `overload=off`, as often as wanted; and how the rank is written then.
    pub fn read(parameters: &mut Parameters<'_>) -> Result<(Parts, String), Fault> {
        let (mut parts, mut label) = (Parts::default(), "laxity".to_owned());
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
