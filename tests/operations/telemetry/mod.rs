//! What the service tells of itself: figures, health, traces and lines (cases B15 and H4).

mod collected;
mod figures;
mod health;
mod lines;
mod plans;
mod traces;
