//! The words of Trellis: its resource types, names, quantities, conditions, reasons and validation.
