/**
 * jest's environment for kafkajs's tests: one that CONFORMANCE_LEFT_OUT names is skipped.
 *
 * A test's name is "<file>.<names of its describes and its own>", as in the report that jest-junit writes.
 */
const path = require('path')
const NodeEnvironment = require('jest-environment-node')

const rules = JSON.parse(process.env.CONFORMANCE_LEFT_OUT || '[]').map(rule => new RegExp(rule.pattern))

const fullName = block => {
  const names = []
  for (let each = block; each && each.name !== 'ROOT_DESCRIBE_BLOCK'; each = each.parent) names.unshift(each.name)
  return names.join(' ')
}

module.exports = class extends NodeEnvironment {
  constructor(config, context) {
    super(config, context)
    this.file = path.relative(config.rootDir, context.testPath)
  }

  handleTestEvent(event) {
    if (event.name === 'test_start' && rules.some(rule => rule.test(`${this.file}.${fullName(event.test)}`)))
      event.test.mode = 'skip'
  }
}
