// kafkajs behind the line protocol of peers/clients/lines.py: node kafkajs_client.js <bootstrap>

const readline = require('node:readline')
const { CompressionTypes, Kafka, logLevel } = require('kafkajs')
const Batch = require('kafkajs/src/consumer/batch')

const DEADLINE_MS = 30000
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }
const ACKS = { 0: 0, 1: 1, all: -1 }

// A login, as mechanism,user,password.
const [mechanism, username, password] = (process.env.PEER_SASL || '').split(',')

const kafka = new Kafka({
  clientId: 'kafkajs-peer',
  brokers: [process.argv[2]],
  sasl: mechanism ? { mechanism, username, password } : undefined,
  logLevel: logLevel.NOTHING,
  retry: { retries: 8, initialRetryTime: 100 },
})

const raw = (hex) => (hex === null ? null : Buffer.from(hex, 'hex'))
const hex = (buffer) => (buffer === null || buffer === undefined ? null : buffer.toString('hex'))

async function withAdmin(act) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await act(admin)
  } finally {
    await admin.disconnect()
  }
}

// kafkajs keeps headers as an object: one name with several values becomes a list.
function headersOf(list) {
  const headers = {}
  for (const [name, value] of list) {
    if (!(name in headers)) headers[name] = raw(value)
    else headers[name] = [].concat(headers[name], [raw(value)])
  }
  return headers
}

function listOf(headers) {
  return Object.entries(headers || {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name, hex(each)])
  )
}

async function produce(request) {
  const transactional = request.transaction !== ''
  const producer = kafka.producer({
    idempotent: request.idempotent || transactional,
    maxInFlightRequests: 1,
    ...(transactional ? { transactionalId: `kafkajs-${request.topic}-${request.transaction}` } : {}),
    allowAutoTopicCreation: false,
  })
  await producer.connect()
  try {
    const to = transactional ? await producer.transaction() : producer
    const answers = await to.send({
      topic: request.topic,
      acks: ACKS[request.acks],
      compression: CODECS[request.codec],
      messages: request.records.map((record) => ({
        partition: request.partition,
        key: raw(record.key),
        value: raw(record.value),
        headers: headersOf(record.headers),
        ...(record.timestamp === null ? {} : { timestamp: String(record.timestamp) }),
      })),
    })
    if (request.transaction === 'commit') await to.commit()
    if (request.transaction === 'abort') await to.abort()
    const base = request.acks === '0' ? -1 : Number(answers[0].baseOffset)
    return { offsets: request.records.map((_, at) => (base < 0 ? -1 : base + at)) }
  } finally {
    await producer.disconnect()
  }
}

// kafkajs consumes in groups only: it has no assign(). Its own cluster and broker objects fetch a partition, and
// its own Batch drops control and aborted records, as its consumer does with them.
async function consume(request) {
  const created = Object.getOwnPropertySymbols(kafka).find((each) => each.description.includes('createCluster'))
  const isolationLevel = request.isolation === 'read_committed' ? 1 : 0
  const cluster = kafka[created]({ isolationLevel, instrumentationEmitter: null, metadataMaxAge: 60000 })
  await cluster.connect()
  const records = []
  try {
    await cluster.addTargetTopic(request.topic)
    const leaders = cluster.findLeaderForPartitions(request.topic, [request.partition])
    const broker = await cluster.findBroker({ nodeId: Object.keys(leaders)[0] })
    const deadline = Date.now() + DEADLINE_MS
    let next = request.start
    while (next < request.end && Date.now() < deadline) {
      const partition = { partition: request.partition, fetchOffset: String(next), maxBytes: 1048576 }
      const { responses } = await broker.fetch({
        maxWaitTime: 200,
        minBytes: 1,
        maxBytes: 10485760,
        isolationLevel,
        topics: [{ topic: request.topic, partitions: [partition] }],
        rackId: '',
      })
      const batch = new Batch(request.topic, next, responses[0].partitions[0])
      for (const message of batch.messages) {
        const offset = Number(message.offset)
        if (offset < request.start || offset >= request.end) continue
        records.push({
          offset,
          timestamp: Number(message.timestamp),
          key: hex(message.key),
          value: hex(message.value),
          headers: listOf(message.headers),
        })
      }
      if (!batch.isEmpty() || batch.isEmptyDueToFiltering()) next = Number(batch.lastOffset()) + 1
    }
  } finally {
    await cluster.disconnect()
  }
  return { records }
}

async function listOffset(request) {
  return withAdmin(async (admin) => {
    if (request.at === 'earliest' || request.at === 'latest') {
      const found = (await admin.fetchTopicOffsets(request.topic)).find((each) => each.partition === request.partition)
      return { offset: Number(request.at === 'earliest' ? found.low : found.high), timestamp: -1 }
    }
    const found = await admin.fetchTopicOffsetsByTimestamp(request.topic, Number(request.at))
    return { offset: Number(found.find((each) => each.partition === request.partition).offset), timestamp: -1 }
  })
}

const OPS = {
  create_topic: (request) =>
    withAdmin(async (admin) => {
      const configEntries = Object.entries(request.config).map(([name, value]) => ({ name, value }))
      const created = await admin.createTopics({
        topics: [{ topic: request.topic, numPartitions: request.partitions, configEntries }],
      })
      // It keeps TOPIC_ALREADY_EXISTS to itself and says false.
      return created ? {} : { error: 36, message: 'createTopics() resolved to false' }
    }),
  delete_topic: (request) =>
    withAdmin(async (admin) => {
      await admin.deleteTopics({ topics: [request.topic] })
      return {}
    }),
  produce,
  consume,
  list_offset: listOffset,
  describe_config: (request) =>
    withAdmin(async (admin) => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: 2, name: request.topic }],
      })
      return {
        config: Object.fromEntries(
          resources[0].configEntries.map((each) => [each.configName, each.configValue])
        ),
      }
    }),
  alter_config: (request) =>
    withAdmin(async (admin) => {
      const configEntries = Object.entries(request.config).map(([name, value]) => ({ name, value }))
      await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: request.topic, configEntries }] })
      return {}
    }),
  create_partitions: (request) =>
    withAdmin(async (admin) => {
      await admin.createPartitions({ topicPartitions: [{ topic: request.topic, count: request.partitions }] })
      return {}
    }),
  partition_count: (request) =>
    withAdmin(async (admin) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [request.topic] })
      return { partitions: topics[0].partitions.length }
    }),
  delete_records: (request) =>
    withAdmin(async (admin) => {
      await admin.fetchTopicOffsets(request.topic) // deleteTopicRecords() does not load the metadata it needs
      await admin.deleteTopicRecords({
        topic: request.topic,
        partitions: [{ partition: request.partition, offset: String(request.before) }],
      })
      const found = (await admin.fetchTopicOffsets(request.topic)).find((each) => each.partition === request.partition)
      return { low: Number(found.low) }
    }),
}

// The innermost error that carries one of Kafka's codes.
function codeOf(error) {
  const inner = (at) => at.cause || at.originalError || (at.errors || at.partitions || [])[0] || at.error
  for (let at = error; at; at = inner(at)) {
    if (typeof at.code === 'number') return at.code
  }
  return -1
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let reply
    try {
      const request = JSON.parse(line)
      reply = await OPS[request.op](request)
    } catch (error) {
      reply = { error: codeOf(error), message: String(error.stack || error) }
    }
    process.stdout.write(JSON.stringify(reply) + '\n')
  }
}

main()
