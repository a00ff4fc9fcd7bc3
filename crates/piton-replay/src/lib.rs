//! Bounded, serialisable replay buffers, generic over the item.
