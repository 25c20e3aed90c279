//! The charts of the sample applications, installed for real.
