/** Takes the place of kafkajs's `scripts/addPartitions.sh`, which asks a broker in a container: TOPIC to PARTITIONS. */
const { Kafka } = require('../index')
const { plainTextBrokers } = require('../testHelpers')

const main = async () => {
  const admin = new Kafka({ brokers: plainTextBrokers() }).admin()
  await admin.connect()
  await admin.createPartitions({
    topicPartitions: [{ topic: process.env.TOPIC, count: Number(process.env.PARTITIONS) }],
  })
  await admin.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
