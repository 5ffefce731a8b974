// The vendors' own clients against a model server: a call with tools, its results, and an error; with events and without.
// Prints what each of them understood, as one line of JSON.
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { GoogleGenAI } from '@google/genai'

const [, , url, key] = process.argv
const schema = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] }
const question = 'What is 1 + 2, and 3 + 4.5?'
const anthropic = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 })
const openai = new OpenAI({ baseURL: url + '/v1', apiKey: key, maxRetries: 0 })
const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } })

const clients = {
  async content_blocks(stream) {
    const messages = [{ role: 'user', content: question }]
    const tools = [{ name: 'add', description: 'Adds', input_schema: schema }]
    const ask = async () => {
      const params = { model: 'claude-test', max_tokens: 1000, messages, tools }
      if (!stream) return anthropic.messages.create(params)
      return anthropic.messages.stream(params).finalMessage()
    }
    const first = await ask()
    const uses = first.content.filter(b => b.type === 'tool_use')
    messages.push({ role: 'assistant', content: first.content },
      { role: 'user', content: uses.map(u => ({ type: 'tool_result', tool_use_id: u.id, content: String(u.input.a + u.input.b) })) })
    const second = await ask()
    return {
      text: first.content.filter(b => b.type === 'text').map(b => b.text).join(''),
      thinking: first.content.filter(b => b.type === 'thinking').map(b => b.thinking).join(''),
      calls: uses.map(u => ({ id: u.id, name: u.name, input: u.input })), stop: first.stop_reason,
      usage: [first.usage.input_tokens + first.usage.cache_read_input_tokens + first.usage.cache_creation_input_tokens, first.usage.output_tokens, first.usage.cache_read_input_tokens],
      second: second.content[0].text, end: second.stop_reason,
    }
  },
  async chat_completion(stream) {
    const messages = [{ role: 'system', content: 'Be short.' }, { role: 'user', content: question }]
    const tools = [{ type: 'function', function: { name: 'add', description: 'Adds', parameters: schema } }]
    const ask = async () => {
      const params = { model: 'gpt-test', max_completion_tokens: 1000, messages, tools }
      if (!stream) return openai.chat.completions.create(params)
      return openai.chat.completions.stream({ ...params, stream_options: { include_usage: true } }).finalChatCompletion()
    }
    const first = await ask()
    const m = first.choices[0].message
    messages.push({ role: 'assistant', content: m.content, tool_calls: m.tool_calls })
    for (const c of m.tool_calls) {
      const { a, b } = JSON.parse(c.function.arguments)
      messages.push({ role: 'tool', tool_call_id: c.id, content: String(a + b) })
    }
    const second = await ask()
    return {
      text: m.content, calls: m.tool_calls.map(c => ({ id: c.id, name: c.function.name, input: JSON.parse(c.function.arguments) })),
      stop: first.choices[0].finish_reason,
      usage: [first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.prompt_tokens_details.cached_tokens],
      second: second.choices[0].message.content, end: second.choices[0].finish_reason,
    }
  },
  async responses(stream) {
    const input = [{ role: 'user', content: question }]
    const tools = [{ type: 'function', name: 'add', description: 'Adds', parameters: schema, strict: false }]
    const ask = async () => {
      const params = { model: 'gpt-test', max_output_tokens: 1000, instructions: 'Be short.', input, tools, store: false, include: ['reasoning.encrypted_content'] }
      if (!stream) return openai.responses.create(params)
      const s = openai.responses.stream(params)
      let text = ''
      s.on('response.output_text.delta', e => { text += e.delta })
      const r = await s.finalResponse()
      r.output_text ??= r.output.filter(o => o.type === 'message').flatMap(o => o.content).map(c => c.text).join('')
      if (text !== r.output_text) throw new Error(`the deltas say ${text}, the response ${r.output_text}`)
      return r
    }
    const first = await ask()
    const uses = first.output.filter(o => o.type === 'function_call')
    // The client's own helpers add members that the service doesn't take back.
    input.push(...first.output.map(({ parsed_arguments, parsed, ...o }) =>
      o.content ? { ...o, content: o.content.map(({ parsed, ...c }) => c) } : o))
    for (const u of uses) {
      const { a, b } = JSON.parse(u.arguments)
      input.push({ type: 'function_call_output', call_id: u.call_id, output: String(a + b) })
    }
    const second = await ask()
    return {
      text: first.output_text, thinking: first.output.filter(o => o.type === 'reasoning').map(o => o.summary[0].text).join(''),
      calls: uses.map(u => ({ id: u.call_id, name: u.name, input: JSON.parse(u.arguments) })), stop: first.status,
      usage: [first.usage.input_tokens, first.usage.output_tokens, first.usage.input_tokens_details.cached_tokens],
      second: second.output_text, end: second.status,
    }
  },
  async gemini(stream) {
    const contents = [{ role: 'user', parts: [{ text: question }] }]
    const config = {
      systemInstruction: 'Be short.', maxOutputTokens: 1000,
      tools: [{ functionDeclarations: [{ name: 'add', description: 'Adds', parametersJsonSchema: schema }] }],
    }
    const ask = async () => {
      const params = { model: 'gemini-test', contents, config }
      if (!stream) {
        const r = await google.models.generateContent(params)
        return { parts: r.candidates[0].content.parts, stop: r.candidates[0].finishReason, usage: r.usageMetadata }
      }
      const all = { parts: [] }
      for await (const r of await google.models.generateContentStream(params)) {
        all.parts.push(...r.candidates[0].content.parts)
        all.stop = r.candidates[0].finishReason ?? all.stop
        all.usage = r.usageMetadata
      }
      return all
    }
    const first = await ask()
    const said = (r, thought) => r.parts.filter(p => p.text && !!p.thought === thought).map(p => p.text).join('')
    const uses = first.parts.filter(p => p.functionCall).map(p => p.functionCall)
    contents.push({ role: 'model', parts: first.parts },
      { role: 'user', parts: uses.map(u => ({ functionResponse: { name: u.name, response: { output: u.args.a + u.args.b } } })) })
    const second = await ask()
    return {
      text: said(first, false), thinking: said(first, true), calls: uses.map(u => ({ name: u.name, input: u.args })), stop: first.stop,
      usage: [first.usage.promptTokenCount, first.usage.candidatesTokenCount + first.usage.thoughtsTokenCount, first.usage.cachedContentTokenCount],
      second: said(second, false), end: second.stop,
    }
  },
}

const results = []
for (const [format, run] of Object.entries(clients)) {
  for (const stream of [false, true]) {
    const result = { format, stream, ...await run(stream) }
    // The script has an error now, and then a connection that breaks.
    for (const field of ['error', 'cut']) {
      try {
        await run(stream)
      } catch (e) {
        result[field] = { status: e.status ?? 0, message: String(e.message) }
      }
    }
    results.push(result)
  }
}
console.log(JSON.stringify(results))
