//! The trust listener: discovery, trust bundle, enrolment.
