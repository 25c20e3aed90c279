//! Starting and stopping the server.
