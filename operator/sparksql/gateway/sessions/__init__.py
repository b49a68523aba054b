"""SessionManager of clients inside the driver: who came through which protocol, and what they run."""
