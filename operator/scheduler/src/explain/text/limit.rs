//! The sentences about limits outside queue quota that have no room.

use std::fmt;

use super::{AmountWithVerb, CountText, amount_text, verb};
use crate::explain::{LimitRaise, WaitDetail};
use crate::ids::ResourceName;

impl WaitDetail {
    /// Writes the sentences about limits.
    pub(super) fn write_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitClosed { limit, closure, .. } => {
                write!(f, "{limit}: {}, and nothing starts ", closure.why)?;
                match &closure.until {
                    Some(until) => {
                        f.write_str("until ")?;
                        fmt::Display::fmt(until, f)
                    }
                    None => f.write_str("before that changes"),
                }
            }
            Self::TooManyPending {
                limit,
                max_pending: most,
                pending_before: before,
                ..
            } => write!(
                f,
                "{limit}: {before} {} already, and {most} may",
                verb(*before, "waits", "wait")
            ),
            Self::LimitExceeded {
                limit,
                resource,
                needs,
                most,
                used,
                missing,
                holders,
                largest,
                ..
            } => {
                let shown = |number| LimitAmount(resource.as_ref(), number);
                write!(
                    f,
                    "{limit}: needs {}, {} of {} are held: {} missing",
                    shown(*needs),
                    shown(*used),
                    shown(*most),
                    AmountWithVerb(shown(*missing)),
                )?;
                if *holders > 0 {
                    write!(f, "; held by {}", CountText(*holders, "gang"))?;
                }
                for (i, (gang, held)) in largest.iter().enumerate() {
                    let start = if i == 0 { " (" } else { ", " };
                    write!(f, "{start}{:?}", gang.as_str())?;
                    if resource.is_some() {
                        write!(f, " {}", shown(*held))?;
                    }
                }
                let all = usize::try_from(*holders).is_ok_and(|n| n <= largest.len());
                match (largest.is_empty(), all) {
                    (true, _) => Ok(()),
                    (false, true) => f.write_str(")"),
                    (false, false) => f.write_str(", ...)"),
                }
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for LimitRaise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} more in {}",
            LimitAmount(self.resource.as_ref(), self.by),
            self.limit
        )
    }
}

/// An amount of a resource, or a number of gangs.
struct LimitAmount<'a>(Option<&'a ResourceName>, i128);

impl fmt::Display for LimitAmount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(resource) => amount_text(resource, self.1).fmt(f),
            None => self.1.fmt(f),
        }
    }
}
