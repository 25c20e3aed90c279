//! The device API of Margo generation B, over mutual TLS.
