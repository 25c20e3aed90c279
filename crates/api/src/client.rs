//! A typed client for the operator API.
