"""Run the test suites of Kafka's clients against the broker: `python -m conformance`.

Our own tests check what we believe; these suites check what users of Kafka's clients rely on. Each suite is a module of
`suites`. The module says where the tests come from, how they are run, which of them are left out, and why. The same
suites run against one broker of Apache Kafka, to show what such a broker passes, and against a cluster of ours.

- `suites/`   the suites, one module a client
- `targets/`  the brokers and clusters that suites run against
- `runners/`  how the tests of a suite are run
- `formats/`  how what runners write becomes results
- `model`     suites, and the results of their tests, which are kept as files
- `report`    renders the results as pages
- `sources`   fetches the tests of other projects

The tests of other projects are fetched when they are needed. They never become part of this project.
"""
