//! The agent as a pod of the cluster it manages, with no more rights than it is given.
