//! Formats of quantities.

use trellis_api::Quantity;
use trellis_api::quantity::Amount;

/// Converts an amount, in the unit of another quantity if it is a whole number of units.
pub(crate) fn format_like(amount: Amount, like: Option<&Quantity>) -> Quantity {
    match like {
        Some(like) if like.amount() == Ok(amount) => like.clone(),
        Some(like) if like.as_str().ends_with('i') => format_binary(amount),
        _ => Quantity::new(amount.to_string()),
    }
}

/// Converts an amount, in the largest binary unit of which it is a whole number.
fn format_binary(amount: Amount) -> Quantity {
    const UNITS: [(&str, i64); 4] = [
        ("Ti", 1 << 40),
        ("Gi", 1 << 30),
        ("Mi", 1 << 20),
        ("Ki", 1 << 10),
    ];
    let bytes = Some(amount).filter(|amount| amount.is_whole() && *amount != Amount::ZERO);
    let bytes = bytes.and_then(Amount::ceil_units);
    let in_unit = |(unit, size): &(&str, i64)| {
        let count = bytes?.checked_div(*size)?;
        (bytes?.checked_rem(*size)? == 0).then(|| format!("{count}{unit}"))
    };
    let text = UNITS.iter().find_map(in_unit);
    Quantity::new(text.unwrap_or_else(|| amount.to_string()))
}
