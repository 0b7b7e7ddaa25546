"""Writers: carry plans out as API requests."""
