// A LangGraph project: `colloquy serve --langgraph test/examples/langgraph`, in a folder where `npm i @langchain/langgraph @langchain/core`
// was run. It asks before it sends, so a run ends with a question, and goes on with the answer (`command: { resume: true }`).
import { AIMessage } from '@langchain/core/messages'
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

const draft = ({ messages }) => ({ messages: [new AIMessage(`Dear all, ${messages.at(-1).content}`)] })

const send = ({ messages }) => {
  const isMeant = interrupt({ question: 'Send it?', text: messages.at(-1).content })
  return { messages: [new AIMessage(isMeant ? 'Sent.' : 'Thrown away.')] }
}

export const graph = new StateGraph(MessagesAnnotation)
  .addNode('draft', draft)
  .addNode('send', send)
  .addEdge(START, 'draft')
  .addEdge('draft', 'send')
  .addEdge('send', END)
  .compile()
