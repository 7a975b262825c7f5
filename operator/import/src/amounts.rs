//! Arithmetic on quantities.

use trellis_api::Quantity;

/// Returns the difference of two quantities, at least zero. None: a quantity is invalid.
pub(crate) fn subtract(from: &Quantity, other: &Quantity) -> Option<Quantity> {
    let remaining = from.amount().ok()?.saturating_sub(other.amount().ok()?);
    let zero = remaining.ceil_units() == Some(0);
    Some(Quantity::new(if zero {
        "0".to_owned()
    } else {
        format_like(remaining.to_string(), from)
    }))
}

/// Formats an amount in the unit of another amount, if it is a whole number of these units.
fn format_like(plain: String, like: &Quantity) -> String {
    const UNITS: [(&str, i64); 4] = [
        ("Ti", 1 << 40),
        ("Gi", 1 << 30),
        ("Mi", 1 << 20),
        ("Ki", 1 << 10),
    ];
    let amount = Quantity::new(plain.as_str()).amount().ok();
    let bytes = amount.filter(|a| a.is_whole()).and_then(|a| a.ceil_units());
    let binary = like.as_str().ends_with('i');
    let in_unit = |(unit, size): &(&str, i64)| {
        let count = bytes?.checked_div(*size)?;
        (bytes?.checked_rem(*size)? == 0).then(|| format!("{count}{unit}"))
    };
    let in_units = binary.then(|| UNITS.iter().find_map(in_unit)).flatten();
    in_units.unwrap_or(plain)
}
