//! The doors on the open net.
