"""The state that a checkpoint keeps, decoded for people; reads, and changes nothing."""
