"""Followers: fetching what other brokers lead into the logs here.

- `following`   one partition that is followed: from where it is fetched next, and when
- `fetcher`     one connection to a leader: truncates, fetches and appends, over and over
- `truncation`  makes the logs of followers agree with the leader's
- `fetchers`    all fetchers of a broker: which partition is fetched over which connection
"""
