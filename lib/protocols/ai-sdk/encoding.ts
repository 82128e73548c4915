// What a stream of chunks has around them.

export const STREAM_HEADERS = { 'X-Vercel-AI-UI-Message-Stream': 'v1' }

export const DONE = Buffer.from('data: [DONE]\n\n')
